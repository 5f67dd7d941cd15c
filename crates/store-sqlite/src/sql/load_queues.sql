-- Loads all queues at start, the oldest first.
SELECT queue_key, name FROM queues ORDER BY queue_key;
