-- Whether a queue has this key.
SELECT 1 FROM queues WHERE queue_key = ?1;
