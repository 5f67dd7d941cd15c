-- Lists all queues in the order of their creation.
SELECT queue_key, name FROM taskqueue.queues ORDER BY queue_key;
