-- Removes tasks from the pending order, by all columns of its index. The pending number identifies the task. Whoever removes an entry
-- holds the task, and entries are never changed, so that none of them moves.
DELETE FROM taskqueue.ready
WHERE ctid = ANY (ARRAY(
    SELECT entry.ctid
    FROM unnest($1::bigint[], $2::text[], $3::bigint[], $4::bigint[]) AS gone (queue_key, route, priority, pending_seq)
    CROSS JOIN LATERAL (
        -- Looked up one by one: where the order was empty a moment ago, the planner would walk over all of it.
        SELECT ready.ctid
        FROM taskqueue.ready
        WHERE ready.queue_key = gone.queue_key AND ready.route = gone.route AND ready.priority = gone.priority
            AND ready.pending_seq = gone.pending_seq
        OFFSET 0
    ) AS entry
));
