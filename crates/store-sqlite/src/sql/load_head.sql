-- Loads a task without its JSON.
SELECT {head_columns}
FROM tasks
WHERE tasks.task_key = ?1;
