-- For the queues $1: how many of their pending tasks are where. Counts end at a bound, so that they cost the
-- same at a million tasks: $3 entries of the pending order, as many delayed tasks whose time has come and whose time is to come,
-- and $4 dependencies, which are looked at only where such a bound was reached (otherwise blocked tasks are the rest). Each
-- ORDER BY is that of an index, which is used as soon as the table has statistics. Without $2 the time is that of the service (table `clock`).
SELECT
    queues.queue_key,
    ordered.entries AS ordered_entries,
    ordered.tasks AS ordered_tasks,
    due.tasks AS due_tasks,
    later.tasks AS later_tasks,
    noted.dependencies AS noted_dependencies,
    blocked.tasks AS blocked_tasks
FROM taskqueue.queues
CROSS JOIN (
    SELECT coalesce($2, (
        SELECT greatest((extract(epoch FROM clock_timestamp()) * 1000000)::bigint + offset_micros, last_scan_at)
        FROM taskqueue.clock
        WHERE one = 1
    )) AS micros
) AS moment
CROSS JOIN LATERAL (
    SELECT count(*) AS entries, count(DISTINCT entries.task_key) AS tasks
    FROM (
        SELECT ready.task_key
        FROM taskqueue.ready
        WHERE ready.queue_key = queues.queue_key
        ORDER BY ready.route, ready.priority DESC, ready.pending_seq
        LIMIT $3
    ) AS entries
) AS ordered
CROSS JOIN LATERAL (
    SELECT count(*) AS tasks
    FROM (
        SELECT 1
        FROM taskqueue.delayed
        -- A range and an order, which only the primary key can serve, as in move_due.
        WHERE delayed.queue_key >= queues.queue_key
            AND (delayed.queue_key, delayed.not_before) <= (queues.queue_key, moment.micros)
        ORDER BY delayed.queue_key, delayed.not_before
        LIMIT $3
    ) AS entries
) AS due
CROSS JOIN LATERAL (
    SELECT count(*) AS tasks
    FROM (
        SELECT 1
        FROM taskqueue.delayed
        WHERE delayed.queue_key <= queues.queue_key
            AND (delayed.queue_key, delayed.not_before) > (queues.queue_key, moment.micros)
        ORDER BY delayed.queue_key, delayed.not_before
        LIMIT $3
    ) AS entries
) AS later
CROSS JOIN LATERAL (
    SELECT count(*) AS dependencies
    FROM (
        SELECT 1
        FROM taskqueue.dependencies
        WHERE dependencies.queue_key = queues.queue_key
            AND (ordered.entries >= $3 OR due.tasks >= $3 OR later.tasks >= $3)
        ORDER BY dependencies.dependency
        LIMIT $4
    ) AS entries
) AS noted
CROSS JOIN LATERAL (
    SELECT count(DISTINCT waiting.task_key) AS tasks
    FROM (
        SELECT dependencies.task_key
        FROM taskqueue.dependencies
        -- If there are too many, what is found would not be used.
        WHERE dependencies.queue_key = queues.queue_key AND noted.dependencies > 0 AND noted.dependencies < $4
        ORDER BY dependencies.dependency
        LIMIT $4
    ) AS entries
    CROSS JOIN LATERAL (
        SELECT tasks.task_key
        FROM taskqueue.tasks
        WHERE tasks.task_key = entries.task_key AND tasks.status = 'pending' AND tasks.unmet IS NOT NULL
        LIMIT 1
    ) AS waiting
) AS blocked
WHERE queues.queue_key = ANY($1);
