-- Saves the settings of a queue.
INSERT INTO queue_settings (queue_key, settings) VALUES (?1, ?2)
ON CONFLICT (queue_key) DO UPDATE SET settings = excluded.settings;
