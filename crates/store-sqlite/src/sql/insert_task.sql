-- Adds the narrow row of a new task, unless the queue has a task of this id.
INSERT INTO tasks (
    queue_key, id, created_at, status, priority, pending_seq, routes, attempt, max_attempts, updated_at,
    definition_bytes, name
) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)
ON CONFLICT (queue_key, id) DO NOTHING;
