-- Loads all queues for a transfer.
SELECT queue_key, name FROM taskqueue.queues ORDER BY name;
