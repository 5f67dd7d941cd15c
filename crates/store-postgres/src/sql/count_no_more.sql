-- Ends the counting of running tasks of a queue.
UPDATE taskqueue.running SET queue_key = NULL, route = NULL WHERE queue_key = $1;
