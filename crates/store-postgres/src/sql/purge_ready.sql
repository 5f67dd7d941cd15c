-- Removes some rows of a deleted queue from the pending order.
DELETE FROM taskqueue.ready
WHERE ctid = ANY (ARRAY(SELECT ctid FROM taskqueue.ready WHERE queue_key = $1 LIMIT $2));
