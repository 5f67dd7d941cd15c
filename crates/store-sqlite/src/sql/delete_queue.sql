DELETE FROM queues WHERE queue_key = ?1;
