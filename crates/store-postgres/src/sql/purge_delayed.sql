-- Removes some delayed tasks of a deleted queue.
DELETE FROM taskqueue.delayed
WHERE ctid = ANY (ARRAY(SELECT ctid FROM taskqueue.delayed WHERE queue_key = $1 LIMIT $2));
