-- Finds the key of a queue by its name.
SELECT queue_key FROM queues WHERE name = ?1;
