-- Loads a task by its key.
SELECT {task_columns}
FROM tasks
JOIN definitions ON definitions.task_key = tasks.task_key
LEFT JOIN outcomes ON outcomes.task_key = tasks.outcome_key
WHERE tasks.task_key = ?1;
