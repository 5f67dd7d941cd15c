-- Removes some pieces of the output of deleted tasks.
DELETE FROM taskqueue.output_pieces
WHERE ctid = ANY (ARRAY(SELECT ctid FROM taskqueue.output_pieces WHERE task_key = ANY($1) LIMIT $2));
