DELETE FROM taskqueue.purges WHERE queue_key = $1;
