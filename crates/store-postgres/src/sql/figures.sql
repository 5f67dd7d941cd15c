-- Figures of queues, and why a task is not claimed.

-- name: LIST_FIGURES
-- Counts the tasks of the queues $1 by status, over the shards. Archived tasks, in shards below zero, are left out. A queue without
-- tasks has one row without a status.
SELECT queues.queue_key, counted.status, coalesce(counted.tasks, 0) AS tasks
FROM taskqueue.queues
LEFT JOIN (
    SELECT tally.queue_key, tally.status, sum(tally.tasks)::bigint AS tasks
    FROM taskqueue.tally
    WHERE tally.queue_key = ANY($1::bigint[]) AND tally.shard >= 0
    GROUP BY tally.queue_key, tally.status
) AS counted ON counted.queue_key = queues.queue_key
WHERE queues.queue_key = ANY($1);

-- name: LIST_ROUTE_FIGURES
-- Lists what pending and running tasks and current workers of the queues $1 add to their routes, by queue and route: a route has
-- several rows, whose sum is what it has. Archived tasks, in shards below zero, are left out. Without $2 the time is that of the
-- service (table `clock`).
SELECT
    tally.queue_key,
    named.route COLLATE "C" AS route,
    CASE WHEN tally.status = 'pending' THEN tally.tasks ELSE 0 END AS pending,
    CASE WHEN tally.status = 'running' THEN tally.tasks ELSE 0 END AS running,
    0::bigint AS idle,
    0::bigint AS busy
FROM taskqueue.tally
CROSS JOIN LATERAL json_array_elements_text(tally.routes::json) AS named (route)
WHERE tally.queue_key = ANY($1::bigint[]) AND tally.shard >= 0 AND tally.status IN ('pending', 'running') AND tally.tasks <> 0
UNION ALL
SELECT
    observations.queue_key,
    observations.route,
    0 AS pending,
    0 AS running,
    count(*) FILTER (WHERE observations.status = 'idle') AS idle,
    count(*) FILTER (WHERE observations.status = 'busy') AS busy
FROM taskqueue.observations
WHERE observations.queue_key = ANY($1) AND observations.expires_at > coalesce($2::bigint, (
    SELECT greatest((extract(epoch FROM clock_timestamp()) * 1000000)::bigint + offset_micros, last_scan_at)
    FROM taskqueue.clock
    WHERE one = 1
))
GROUP BY observations.queue_key, observations.route
ORDER BY queue_key, route;

-- name: LIST_SERVED_ROUTES
-- Lists which of the routes $3 of a queue have a current observation.
SELECT DISTINCT route
FROM taskqueue.observations
WHERE queue_key = $1::bigint AND expires_at > $2::bigint AND route = ANY($3::text[]);

-- name: LIST_OLDEST_PENDING
-- For each route that is asked for by its number, the task that has been pending longest: the one with the lowest place in the
-- pending order over all priorities. Steps from one priority of a route to the next, all routes side by side, $3 steps in all: the
-- rest of the priorities is not looked at. No step sorts, and none visits more than one task. Only what says since when is loaded:
-- the routes of a task alone may take 33 kB, and each of them may ask for it.
WITH RECURSIVE first_of_priority AS (
    SELECT wanted.queue_key, wanted.route, wanted.route_number, ready.priority, ready.pending_seq, ready.task_key
    FROM unnest($1::bigint[], $2::text[]) WITH ORDINALITY AS wanted (queue_key, route, route_number)
    CROSS JOIN LATERAL (
        SELECT highest.priority, highest.pending_seq, highest.task_key
        FROM taskqueue.ready AS highest
        WHERE highest.queue_key = wanted.queue_key AND highest.route = wanted.route
        ORDER BY highest.priority DESC, highest.pending_seq
        LIMIT 1
    ) AS ready
    UNION ALL
    SELECT before.queue_key, before.route, before.route_number, ready.priority, ready.pending_seq, ready.task_key
    FROM first_of_priority AS before
    CROSS JOIN LATERAL (
        SELECT lower.priority, lower.pending_seq, lower.task_key
        FROM taskqueue.ready AS lower
        WHERE lower.queue_key = before.queue_key AND lower.route = before.route AND lower.priority < before.priority
        ORDER BY lower.priority DESC, lower.pending_seq
        LIMIT 1
    ) AS ready
),

oldest AS (
    SELECT DISTINCT ON (route_number) route_number, task_key
    FROM (SELECT * FROM first_of_priority LIMIT $3::bigint) AS seen
    ORDER BY route_number, pending_seq
)

SELECT tasks.created_at, tasks.updated_at, tasks.finished_run_id IS NOT NULL AS was_run, oldest.route_number
FROM oldest
CROSS JOIN LATERAL (
    SELECT * FROM taskqueue.tasks AS found WHERE found.task_key = oldest.task_key LIMIT 1
) AS tasks;

-- name: LIST_PENDING_PARTS
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
    SELECT coalesce($2::bigint, (
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
        LIMIT $3::bigint
    ) AS entries
) AS ordered
CROSS JOIN LATERAL (
    SELECT count(*) AS tasks
    FROM (
        SELECT 1
        FROM taskqueue.delayed
        -- A range and an order, which only the primary key can serve, as in MOVE_DUE.
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
        LIMIT $4::bigint
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
WHERE queues.queue_key = ANY($1::bigint[]);

-- name: MEASURE_TABLES
-- The bytes of all tables of the schema, with their indexes and what is moved out of rows. A few system calls for each: of the whole
-- database it could be thousands.
SELECT coalesce(sum(pg_total_relation_size(oid)), 0)::bigint AS bytes
FROM pg_class
WHERE relkind = 'r' AND relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = 'taskqueue.queues'::regclass);

-- name: EXPLAIN_TASK
-- Finds a task of a queue without its JSON, the settings of the queue, and the time of the service (table `clock`). No row: no such
-- queue; without a key: no such task. By a range, which only the index by id can serve.
SELECT
    {head_columns}, queues.queue_key AS explained_queue, queues.settings,
    greatest(
        (extract(epoch FROM clock_timestamp()) * 1000000)::bigint + clock.offset_micros, clock.last_scan_at
    ) AS now
FROM taskqueue.queues
CROSS JOIN taskqueue.clock
LEFT JOIN LATERAL (
    SELECT * FROM taskqueue.tasks
    WHERE tasks.queue_key = queues.queue_key AND tasks.id >= $2::text AND tasks.id <= $2
    ORDER BY tasks.id
    LIMIT 1
) AS tasks ON true
WHERE queues.name = $1::text;

-- name: EXPLAIN_ROUTES
-- For each of the routes $2 of a task of the queue $1: how many tasks of the pending order come before it, counted up to $5; how many
-- running tasks were claimed for the route, and how many the queue has, if it limits claims. The task has the priority $3 and the place
-- $4. Each count is a walk along an index.
SELECT
    wanted.place,
    least($5::bigint, (
        SELECT count(*)
        FROM (
            SELECT 1 FROM taskqueue.ready
            WHERE ready.queue_key = $1::bigint AND ready.route = wanted.route AND ready.priority > $3::bigint
            LIMIT $5
        ) AS higher
    ) + (
        SELECT count(*)
        FROM (
            SELECT 1 FROM taskqueue.ready
            WHERE ready.queue_key = $1 AND ready.route = wanted.route AND ready.priority = $3 AND ready.pending_seq < $4::bigint
            LIMIT $5
        ) AS earlier
    )) AS ahead,
    (SELECT count(*) FROM taskqueue.running WHERE running.queue_key = $1 AND running.route = wanted.route) AS of_route,
    counted.of_queue
FROM unnest($2::text[]) WITH ORDINALITY AS wanted (route, place)
CROSS JOIN (SELECT count(*) AS of_queue FROM taskqueue.running WHERE running.queue_key = $1) AS counted
ORDER BY wanted.place;

-- name: EXPLAIN_DELAYED
-- Lists tasks of the queue $1 whose time has come by $2 and that are not in the pending order yet, at most $3.
SELECT tasks.routes, tasks.priority, tasks.pending_seq
FROM (
    SELECT task_key
    FROM taskqueue.delayed
    WHERE queue_key = $1::bigint AND not_before <= $2::bigint
    ORDER BY not_before
    LIMIT $3::bigint
) AS due
JOIN taskqueue.tasks ON tasks.task_key = due.task_key;

-- name: EXPLAIN_DEPENDENCIES
-- Finds the status of each of the tasks $2 of the queue $1; null for those that do not exist.
SELECT named.id, tasks.status
FROM unnest($2::text[]) AS named (id)
LEFT JOIN LATERAL (
    SELECT * FROM taskqueue.tasks
    WHERE tasks.queue_key = $1::bigint AND tasks.id >= named.id AND tasks.id <= named.id
    ORDER BY tasks.id
    LIMIT 1
) AS tasks ON true
ORDER BY named.id;
