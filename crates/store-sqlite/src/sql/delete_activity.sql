-- Deletes some rows of a deleted queue.
DELETE FROM activity
WHERE (queue_key, unit, start, process) IN
    (SELECT queue_key, unit, start, process FROM activity WHERE queue_key = ?1 LIMIT ?2);
