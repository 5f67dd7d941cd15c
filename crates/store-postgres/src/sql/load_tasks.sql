-- Loads whole tasks by queue and id. Tasks that this transaction holds are current; others may have changed since.
SELECT {task_columns}
FROM unnest($1::text[], $2::text[]) AS named (queue, id)
JOIN taskqueue.queues ON queues.name = named.queue
CROSS JOIN LATERAL (
    -- A range and an order, which only the index by id can serve. Without statistics, in a database that is minutes old, the
    -- planner would use an index by queue and read all tasks of the queue.
    SELECT * FROM taskqueue.tasks
    WHERE tasks.queue_key = queues.queue_key AND tasks.id >= named.id AND tasks.id <= named.id
    ORDER BY tasks.id
    LIMIT 1
) AS tasks
JOIN taskqueue.definitions ON definitions.task_key = tasks.task_key
LEFT JOIN taskqueue.outcomes ON outcomes.task_key = tasks.task_key;
