-- Ends the purge of a deleted queue that has no tasks left.
DELETE FROM taskqueue.purges WHERE queue_key = $1;
