-- Whether there is nothing, not even of a deleted queue.
SELECT NOT EXISTS (SELECT 1 FROM queues) AND NOT EXISTS (SELECT 1 FROM tasks) AND NOT EXISTS (SELECT 1 FROM purges);
