-- What changed for those who wait, where a notification was lost.

-- name: POLL_ROUTES
-- For each route that claims wait for: whether its queue exists, and how many tasks are claimable, at most as many as there
-- are waiters, and as many delayed ones that are due and not in the pending order yet. The order makes it a walk along the index
-- from its beginning. Where claims take turns, also the settings of the queue, and how many tasks of it are running, in all and of
-- this route. Without $4 the time is that of the service (table `clock`).
WITH clock AS MATERIALIZED (
    SELECT coalesce($4::bigint, greatest(
        (extract(epoch FROM clock_timestamp()) * 1000000)::bigint + offset_micros, last_scan_at
    )) AS now
    FROM taskqueue.clock
    WHERE one = 1
)
SELECT
    wanted.place, queues.queue_key IS NOT NULL,
    (
        SELECT count(*)
        FROM (
            SELECT 1
            FROM taskqueue.ready
            WHERE ready.queue_key = queues.queue_key AND ready.route = wanted.route
            ORDER BY ready.priority DESC, ready.pending_seq
            LIMIT wanted.waiting
        ) AS seen
    ) + (
        SELECT count(*)
        FROM (
            SELECT 1
            FROM taskqueue.delayed
            JOIN taskqueue.tasks ON tasks.task_key = delayed.task_key
            WHERE delayed.queue_key >= queues.queue_key
                AND (delayed.queue_key, delayed.not_before) <= (queues.queue_key, (SELECT now FROM clock))
                AND strpos(tasks.routes, '"' || wanted.route || '"') > 0
            ORDER BY delayed.queue_key, delayed.not_before
            LIMIT wanted.waiting
        ) AS due
    ),
    CASE WHEN queues.takes_turns THEN queues.settings END AS settings,
    CASE WHEN queues.takes_turns THEN (
        SELECT count(*) FROM taskqueue.running WHERE running.queue_key = queues.queue_key
    ) END AS of_queue,
    CASE WHEN queues.takes_turns THEN (
        SELECT count(*) FROM taskqueue.running WHERE running.queue_key = queues.queue_key AND running.route = wanted.route
    ) END AS of_route
FROM unnest($1::text[], $2::text[], $3::bigint[]) WITH ORDINALITY AS wanted (queue, route, waiting, place)
LEFT JOIN taskqueue.queues ON queues.name = wanted.queue;

-- name: POLL_RUNS
-- Which of the runs that heartbeats are held for are no longer active. Each is two lookups by primary key, whatever the planner
-- knows: a subquery in a condition cannot become a join that reads whole tables.
SELECT watched.run_id
FROM unnest($1::text[]) AS watched (run_id)
WHERE (
    SELECT tasks.run_id
    FROM taskqueue.tasks
    WHERE tasks.task_key = (SELECT runs.task_key FROM taskqueue.runs WHERE runs.run_id = watched.run_id)
) IS DISTINCT FROM watched.run_id;

-- name: POLL_OUTPUTS
-- Of the runs whose output is watched: whether they are active, and how far their output goes; null where nothing is kept of it.
-- Each is three lookups by primary key, whatever the planner knows (poll_runs).
SELECT
    watched.run_id,
    (
        SELECT tasks.run_id
        FROM taskqueue.tasks
        WHERE tasks.task_key = (SELECT runs.task_key FROM taskqueue.runs WHERE runs.run_id = watched.run_id)
    ) IS NOT DISTINCT FROM watched.run_id,
    (
        SELECT outputs.end_offset
        FROM taskqueue.outputs
        WHERE
            outputs.task_key = (SELECT runs.task_key FROM taskqueue.runs WHERE runs.run_id = watched.run_id)
            AND outputs.run_id = watched.run_id
    )
FROM unnest($1::text[]) AS watched (run_id);
