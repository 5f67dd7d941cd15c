-- Locks the first pending tasks of each route, as many as its claims want, except those that other transactions hold, and
-- loads them. A task may have been changed after it was found in the order and before it was locked, so the caller checks
-- it again. Without $5 the time is that of the service (table `clock`).
SELECT {task_columns}, tasks.route_number
FROM (
    -- A definition above 1 MiB cannot be; the type of a sum of integers is not numeric, which would cost more than the sum.
    -- The length of a text is known without reading it.
    SELECT locked.*, wanted.route_number,
        sum(
            least(locked.definition_bytes, 2000000)::integer + coalesce(octet_length(sized.result), 0)
            + coalesce(octet_length(sized.error), 0) + coalesce(octet_length(sized.last_run_worker), 0)
            + coalesce(octet_length(sized.progress), 0)
        ) OVER (ROWS UNBOUNDED PRECEDING) AS bytes
    FROM unnest($1::text[], $2::text[], $3::bigint[]) WITH ORDINALITY AS wanted (queue, route, tasks, route_number)
    -- Where claims take turns, tasks are picked by the one that has the turn, and only as many as there is room for.
    JOIN taskqueue.queues ON queues.name = wanted.queue AND queues.takes_turns = $4
    CROSS JOIN LATERAL (
        SELECT tasks.*, tasks.ctid AS version
        FROM taskqueue.ready
        JOIN taskqueue.tasks ON tasks.task_key = ready.task_key
        WHERE ready.queue_key = queues.queue_key AND ready.route = wanted.route AND tasks.status = 'pending'
            AND tasks.unmet IS NULL AND (tasks.not_before IS NULL OR tasks.not_before <= coalesce($5, (
                SELECT greatest((extract(epoch FROM clock_timestamp()) * 1000000)::bigint + offset_micros, last_scan_at)
                FROM taskqueue.clock
                WHERE one = 1
            )))
        ORDER BY ready.priority DESC, ready.pending_seq
        LIMIT wanted.tasks
        FOR UPDATE OF tasks SKIP LOCKED
    ) AS locked
    LEFT JOIN taskqueue.outcomes AS sized ON sized.task_key = locked.task_key
) AS tasks
-- The other tables are read as they were when the statement began. If the task was changed after that and before it was
-- locked, the locked version is not the one in the snapshot; then its JSON is left out and loaded later. So is that of tasks
-- behind the first 4 MiB: the claims of a batch may want many, and all rows that come are held at once.
LEFT JOIN taskqueue.tasks AS seen
    ON seen.task_key = tasks.task_key AND seen.ctid = tasks.version AND tasks.bytes <= 4194304
LEFT JOIN taskqueue.definitions ON definitions.task_key = seen.task_key
LEFT JOIN taskqueue.outcomes ON outcomes.task_key = seen.task_key;
