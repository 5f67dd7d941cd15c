-- Loads tasks by queue and id, with the identities that they were created with and without their JSON.
SELECT {head_columns}, definitions.identity
FROM unnest($1::text[], $2::text[]) AS named (queue, id)
JOIN taskqueue.queues ON queues.name = named.queue
CROSS JOIN LATERAL (
    -- A range and an order, which only the index by id can serve (lock_tasks).
    SELECT * FROM taskqueue.tasks
    WHERE tasks.queue_key = queues.queue_key AND tasks.id >= named.id AND tasks.id <= named.id
    ORDER BY tasks.id
    LIMIT 1
) AS tasks
JOIN taskqueue.definitions ON definitions.task_key = tasks.task_key;
