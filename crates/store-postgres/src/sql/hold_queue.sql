-- Announces that a transaction needs a queue for itself, so that no other begins to use it for a moment. Without this,
-- transactions that overlap without a gap would make it wait for ever. It outlives the server that was killed after it.
UPDATE taskqueue.queues SET held_until = (extract(epoch FROM clock_timestamp()) * 1000000)::bigint + $2 WHERE name = $1;
