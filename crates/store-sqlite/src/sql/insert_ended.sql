-- Notes that a task has ended.
INSERT INTO ended (queue_key, status, ended_at, task_key) VALUES (?1, ?2, ?3, ?4)
ON CONFLICT (queue_key, status, ended_at, task_key) DO NOTHING;
