-- Loads a task by its key, if it belongs to the queue ?2.
SELECT {task_columns}
FROM tasks
JOIN definitions ON definitions.task_key = tasks.task_key
LEFT JOIN outcomes ON outcomes.task_key = tasks.outcome_key
WHERE tasks.task_key = ?1 AND tasks.queue_key = ?2;
