-- The first pending tasks of each route in the claim's order, as many as wanted, except those that others hold.
-- What comes may have been changed after it was read in the order and before it was held: the caller looks again.
SELECT {task_columns}, wanted.route_number
FROM unnest($1::text[], $2::text[], $3::bigint[]) WITH ORDINALITY AS wanted (queue, route, tasks, route_number)
JOIN taskqueue.queues ON queues.name = wanted.queue
CROSS JOIN LATERAL (
    SELECT tasks.*, tasks.ctid AS version
    FROM taskqueue.ready
    JOIN taskqueue.tasks ON tasks.task_key = ready.task_key
    WHERE ready.queue_key = queues.queue_key AND ready.route = wanted.route AND tasks.status = 'pending'
    ORDER BY ready.priority DESC, ready.pending_seq
    LIMIT wanted.tasks
    FOR UPDATE OF tasks SKIP LOCKED
) AS tasks
-- The other tables are seen as they were when the statement began. Where the task was changed after that and before it was
-- held, the version that is held is not the one that is seen, and the heavy part is left to a later look.
LEFT JOIN taskqueue.tasks AS seen ON seen.task_key = tasks.task_key AND seen.ctid = tasks.version
LEFT JOIN taskqueue.definitions ON definitions.task_key = seen.task_key
LEFT JOIN taskqueue.outcomes ON outcomes.task_key = seen.task_key;
