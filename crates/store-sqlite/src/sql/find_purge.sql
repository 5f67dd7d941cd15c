-- Finds a deleted queue that may still have tasks.
SELECT queue_key, kept_until FROM purges LIMIT 1;
