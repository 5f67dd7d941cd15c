-- Locks a queue for this transaction alone. Waits for the transactions that use it.
SELECT queue_key, name, settings FROM taskqueue.queues WHERE name = ANY($1) FOR UPDATE;
