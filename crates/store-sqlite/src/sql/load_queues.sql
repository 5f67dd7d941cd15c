SELECT queue_key, name FROM queues;
