-- Whether any of these queues exists.
SELECT EXISTS (SELECT 1 FROM taskqueue.queues WHERE queue_key = ANY($1));
