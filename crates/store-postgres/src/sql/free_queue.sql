-- Ends the announcement of hold_queue.
UPDATE taskqueue.queues SET held_until = 0 WHERE name = $1;
