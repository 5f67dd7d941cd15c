-- Deletes the narrow row of a task.
DELETE FROM tasks WHERE task_key = ?1;
