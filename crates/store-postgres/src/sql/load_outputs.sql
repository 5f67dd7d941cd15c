-- Loads what is kept of the output of tasks, by queue and id, without the bytes.
SELECT tasks.task_key, outputs.run_id, outputs.attempt, outputs.parts, outputs.last_start
FROM unnest($1::text[], $2::text[]) AS named (queue, id)
JOIN taskqueue.queues ON queues.name = named.queue
CROSS JOIN LATERAL (
    -- A range and an order, which only the index by id can serve (lock_tasks).
    SELECT task_key FROM taskqueue.tasks
    WHERE tasks.queue_key = queues.queue_key AND tasks.id >= named.id AND tasks.id <= named.id
    ORDER BY tasks.id
    LIMIT 1
) AS tasks
LEFT JOIN taskqueue.outputs ON outputs.task_key = tasks.task_key;
