-- Reads what is shown of tasks beside another one. Those that do not exist are left out.
SELECT tasks.id, tasks.status, tasks.name
FROM unnest($2::text[]) AS named (id)
CROSS JOIN LATERAL (
    -- A range and an order, which only the index by id can serve (lock_tasks).
    SELECT tasks.id, tasks.status, tasks.name FROM taskqueue.tasks
    WHERE tasks.queue_key = $1 AND tasks.id >= named.id AND tasks.id <= named.id
    ORDER BY tasks.id
    LIMIT 1
) AS tasks;
