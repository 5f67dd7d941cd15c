-- Lists the counts of a queue.
SELECT routes, status, tasks, archived FROM tally WHERE queue_key = ?1;
