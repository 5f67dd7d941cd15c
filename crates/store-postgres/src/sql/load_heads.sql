-- The heads of these tasks, for whoever has their queue alone.
SELECT {head_columns}
FROM taskqueue.tasks
WHERE tasks.task_key = ANY($1);
