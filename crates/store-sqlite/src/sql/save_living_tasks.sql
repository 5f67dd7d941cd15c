-- Saves which tasks of a chunk may be pending or running.
INSERT INTO living_tasks (chunk, keys) VALUES (?1, ?2) ON CONFLICT (chunk) DO UPDATE SET keys = excluded.keys;
