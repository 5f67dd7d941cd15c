-- Deletes some rows of a unit whose spans began before ?2.
DELETE FROM activity
WHERE (queue_key, unit, start, process) IN
    (SELECT queue_key, unit, start, process FROM activity WHERE unit = ?1 AND start < ?2 LIMIT ?3);
