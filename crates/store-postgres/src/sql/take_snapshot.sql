-- Names the snapshot of this transaction, and finds the queue in it.
SELECT pg_current_snapshot()::text, (SELECT queue_key FROM taskqueue.queues WHERE name = $1);
