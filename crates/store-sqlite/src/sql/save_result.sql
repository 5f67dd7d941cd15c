-- Saves the result of a task.
INSERT INTO outcomes (task_key, result) VALUES (?1, ?2)
ON CONFLICT (task_key) DO UPDATE SET result = excluded.result;
