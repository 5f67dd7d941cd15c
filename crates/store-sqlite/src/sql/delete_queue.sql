-- Deletes a queue. Its tasks are purged later.
DELETE FROM queues WHERE queue_key = ?1;
