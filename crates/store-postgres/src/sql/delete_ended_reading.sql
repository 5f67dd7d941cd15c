-- Ends the reading of the tasks of a queue.
DELETE FROM taskqueue.ended_readings WHERE queue_key = $1;
