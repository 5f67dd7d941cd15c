-- Saves how far the tasks of a queue were read.
INSERT INTO ended_reads (queue_key, after_created_at, after_id) VALUES (?1, ?2, ?3)
ON CONFLICT (queue_key) DO UPDATE SET after_created_at = excluded.after_created_at, after_id = excluded.after_id;
