-- Loads tasks without their JSON. Unless the caller holds their queue for itself, they may have changed since.
SELECT {head_columns}
FROM taskqueue.tasks
WHERE tasks.task_key = ANY($1);
