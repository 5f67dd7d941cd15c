-- Lets the tasks of a queue be read from the first on, to note those that have ended.
INSERT INTO taskqueue.ended_readings (queue_key, after_id) VALUES ($1, '')
ON CONFLICT (queue_key) DO UPDATE SET after_id = '';
