-- Locks a queue like lock_queues. No row: it does not exist, or another transaction holds it for itself or is about to.
SELECT queue_key
FROM taskqueue.queues
WHERE queue_key = $1 AND held_until <= (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
FOR KEY SHARE SKIP LOCKED;
