-- Deletes some of what is noted for the tasks of a deleted queue.
DELETE FROM dependencies
WHERE (queue_key, dependency, task_key) IN
    (SELECT queue_key, dependency, task_key FROM dependencies WHERE queue_key = ?1 LIMIT ?2);
