-- Adds the narrow row of a new task, unless the queue has a task of this id.
INSERT INTO tasks (queue_key, id, created_at, status, packed, name, task_key) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
ON CONFLICT (queue_key, id) DO NOTHING;
