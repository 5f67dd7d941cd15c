-- Adds the narrow row of a new task, unless the queue has a task of this id.
INSERT INTO tasks (queue_key, id, created_at, status, packed, name) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
ON CONFLICT (queue_key, id) DO NOTHING;
