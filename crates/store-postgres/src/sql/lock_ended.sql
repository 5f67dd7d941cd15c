-- Locks tasks by their keys, except those that other transactions hold, and loads them without their JSON.
SELECT {head_columns}
FROM taskqueue.tasks
WHERE tasks.task_key = ANY($1)
ORDER BY tasks.task_key
FOR UPDATE SKIP LOCKED;
