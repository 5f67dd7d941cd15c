-- Saves what came out of a task.
INSERT INTO outcomes (task_key, outcome) VALUES (?1, ?2)
ON CONFLICT (task_key) DO UPDATE SET outcome = excluded.outcome;
