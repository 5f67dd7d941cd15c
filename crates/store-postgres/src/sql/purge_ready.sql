-- Some places of a deleted queue in the claim's order.
DELETE FROM taskqueue.ready
WHERE ctid = ANY (ARRAY(SELECT ctid FROM taskqueue.ready WHERE queue_key = $1 LIMIT $2));
