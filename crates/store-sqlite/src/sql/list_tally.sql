SELECT routes, status, tasks FROM tally WHERE queue_key = ?1;
