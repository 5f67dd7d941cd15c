-- Finds which of these tasks of a queue exist.
SELECT tasks.id
FROM unnest($2::text[]) AS named (id)
CROSS JOIN LATERAL (
    -- A range and an order, which only the index by id can serve (lock_tasks).
    SELECT id FROM taskqueue.tasks
    WHERE tasks.queue_key = $1 AND tasks.id >= named.id AND tasks.id <= named.id
    ORDER BY tasks.id
    LIMIT 1
) AS tasks;
