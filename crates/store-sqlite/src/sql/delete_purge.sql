DELETE FROM purges WHERE queue_key = ?1;
