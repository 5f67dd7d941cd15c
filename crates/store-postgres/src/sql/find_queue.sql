-- Finds the key of a queue by its name.
SELECT queue_key FROM taskqueue.queues WHERE name = $1;
