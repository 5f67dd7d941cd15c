SELECT queue_key FROM taskqueue.queues WHERE name = $1;
