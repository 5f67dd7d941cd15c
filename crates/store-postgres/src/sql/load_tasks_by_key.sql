-- Loads whole tasks by their keys.
SELECT {task_columns}
FROM taskqueue.tasks
JOIN taskqueue.definitions ON definitions.task_key = tasks.task_key
LEFT JOIN taskqueue.outcomes ON outcomes.task_key = tasks.task_key
WHERE tasks.task_key = ANY($1);
