-- Whether the database holds nothing, not even tasks of a deleted queue.
SELECT NOT EXISTS (SELECT 1 FROM queues) AND NOT EXISTS (SELECT 1 FROM tasks) AND NOT EXISTS (SELECT 1 FROM purges);
