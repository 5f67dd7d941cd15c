-- Lets nothing new begin in a queue for some seconds. Without it, transactions that overlap each other without a gap
-- would keep out whoever needs the queue for itself alone.
UPDATE taskqueue.queues SET held_until = (extract(epoch FROM clock_timestamp()) * 1000000)::bigint + $2 WHERE name = $1;
