DELETE FROM observations WHERE queue_key = ?1;
