DELETE FROM tally WHERE queue_key = ?1;
