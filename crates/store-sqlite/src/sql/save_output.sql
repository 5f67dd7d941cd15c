-- Saves what is kept of the output of a task.
INSERT INTO outputs (task_key, packed) VALUES (?1, ?2)
ON CONFLICT (task_key) DO UPDATE SET packed = excluded.packed;
