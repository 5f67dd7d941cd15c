-- Finds a queue by its name, with its settings. Null where they are the default.
SELECT queue_key, settings FROM taskqueue.queues WHERE name = $1;
