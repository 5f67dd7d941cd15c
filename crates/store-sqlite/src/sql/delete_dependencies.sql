-- Deletes some of what is noted for the tasks of a deleted queue, the first ones by key: a search for each of them in a list would
-- read all that the queue has.
DELETE FROM dependencies
WHERE queue_key = ?1 AND (dependency, task_key) <= (
    SELECT dependency, task_key
    FROM (SELECT dependency, task_key FROM dependencies WHERE queue_key = ?1 ORDER BY dependency, task_key LIMIT ?2)
    ORDER BY dependency DESC, task_key DESC
    LIMIT 1
);
