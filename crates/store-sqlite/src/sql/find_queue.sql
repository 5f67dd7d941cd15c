SELECT queue_key FROM queues WHERE name = ?1;
