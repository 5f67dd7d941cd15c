SELECT queue_key FROM taskqueue.purges LIMIT 1 FOR UPDATE SKIP LOCKED;
