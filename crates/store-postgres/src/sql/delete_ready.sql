-- Removes tasks from the pending order, by all columns of its index. The pending number identifies the task.
DELETE FROM taskqueue.ready
USING unnest($1::bigint[], $2::text[], $3::bigint[], $4::bigint[]) AS gone (queue_key, route, priority, pending_seq)
WHERE ready.queue_key = gone.queue_key AND ready.route = gone.route AND ready.priority = gone.priority
    AND ready.pending_seq = gone.pending_seq;
