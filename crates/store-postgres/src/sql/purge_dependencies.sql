-- Removes some of what is noted of the dependencies of a deleted queue.
DELETE FROM taskqueue.dependencies
WHERE ctid = ANY (ARRAY(SELECT ctid FROM taskqueue.dependencies WHERE queue_key = $1 LIMIT $2));
