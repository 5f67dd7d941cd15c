-- Finds the key of the task that was created last.
SELECT coalesce(max(task_key), 0) FROM tasks;
