-- The heads of the named tasks, except those that another transaction holds.
SELECT {head_columns}
FROM unnest($1::text[], $2::text[]) AS named (queue, id)
JOIN taskqueue.queues ON queues.name = named.queue
CROSS JOIN LATERAL (
    -- A range and an order, so that only the index by id will do. Without statistics, in a database that is minutes old, the
    -- planner would find a task by its queue alone and look at all tasks of the queue.
    SELECT * FROM taskqueue.tasks
    WHERE tasks.queue_key = queues.queue_key AND tasks.id >= named.id AND tasks.id <= named.id
    ORDER BY tasks.id
    LIMIT 1
    FOR UPDATE SKIP LOCKED
) AS tasks;
