-- Locks the tasks that wait for these, $3 pairs at most, except those that other transactions hold, and loads them without their
-- JSON, each once: one may wait for all of these. What is noted of them is read by the next statement (list_named_dependents): it is
-- as it is then until this transaction ends.
SELECT {head_columns}
FROM taskqueue.tasks
WHERE tasks.task_key = ANY (ARRAY(
    SELECT waiting.task_key
    FROM unnest($1::text[], $2::text[]) AS named (queue, id)
    JOIN taskqueue.queues ON queues.name = named.queue
    CROSS JOIN LATERAL (
        -- As in list_named_dependents.
        SELECT dependencies.task_key
        FROM taskqueue.dependencies
        WHERE dependencies.queue_key = queues.queue_key AND dependencies.dependency >= named.id
            AND dependencies.dependency <= named.id
        ORDER BY dependencies.queue_key, dependencies.dependency, dependencies.task_key
        LIMIT $3
    ) AS waiting
    LIMIT $3
))
FOR UPDATE SKIP LOCKED;
