-- Loads tasks without their JSON. The caller holds their queue for itself.
SELECT {head_columns}
FROM taskqueue.tasks
WHERE tasks.task_key = ANY($1);
