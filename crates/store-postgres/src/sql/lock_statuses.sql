-- Locks tasks of a queue against changes, except those that other transactions are changing, and reads their status. Others may
-- lock them in the same way. No row: no such task; a row without a status: others are changing it.
SELECT named.id, locked.status
FROM unnest($2::text[]) AS named (id)
CROSS JOIN LATERAL (
    -- A range and an order, which only the index by id can serve (lock_tasks).
    SELECT tasks.id FROM taskqueue.tasks
    WHERE tasks.queue_key = $1 AND tasks.id >= named.id AND tasks.id <= named.id
    ORDER BY tasks.id
    LIMIT 1
) AS seen
LEFT JOIN LATERAL (
    SELECT tasks.status FROM taskqueue.tasks
    WHERE tasks.queue_key = $1 AND tasks.id >= named.id AND tasks.id <= named.id
    ORDER BY tasks.id
    LIMIT 1
    FOR SHARE SKIP LOCKED
) AS locked ON true;
