-- Locks queues against deletion until the end of the transaction. Leaves out queues that another transaction holds for
-- itself or is about to (hold_queue).
SELECT queue_key, name, settings
FROM taskqueue.queues
WHERE name = ANY($1) AND held_until <= (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
FOR KEY SHARE SKIP LOCKED;
