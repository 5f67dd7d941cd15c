-- Notes how far the tasks of a queue $1 were read: up to $2.
UPDATE taskqueue.ended_readings SET after_id = $2 WHERE queue_key = $1;
