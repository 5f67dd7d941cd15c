-- Ends the purge of the output of deleted tasks that have no pieces left.
DELETE FROM taskqueue.output_purges WHERE task_key = ANY($1);
