-- Held until the end of the transaction: a queue in which something is done cannot be deleted meanwhile. Queues that
-- another transaction wants or has for itself alone are left out.
SELECT queue_key, name
FROM taskqueue.queues
WHERE name = ANY($1) AND held_until <= (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
FOR KEY SHARE SKIP LOCKED;
