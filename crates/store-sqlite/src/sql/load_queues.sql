-- Loads all queues at start.
SELECT queue_key, name FROM queues;
