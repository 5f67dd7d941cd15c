-- Reads a task by its queue and id.
SELECT {task_columns}
FROM tasks
JOIN definitions ON definitions.task_key = tasks.task_key
LEFT JOIN outcomes ON outcomes.task_key = tasks.task_key
WHERE tasks.queue_key = ?1 AND tasks.id = ?2;
