-- The snapshot of this transaction, and the queue in it.
SELECT pg_current_snapshot()::text, (SELECT queue_key FROM taskqueue.queues WHERE name = $1);
