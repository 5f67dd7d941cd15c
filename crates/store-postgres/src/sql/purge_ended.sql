-- Removes some notes of ended tasks of a deleted queue.
DELETE FROM taskqueue.ended
WHERE ctid = ANY (ARRAY(SELECT ctid FROM taskqueue.ended WHERE queue_key = $1 LIMIT $2));
