-- What claims take: the pending order, delayed tasks, running ones, run ids, and turns where claims are limited.

-- name: PICK_TASKS
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
    JOIN taskqueue.queues ON queues.name = wanted.queue AND queues.takes_turns = $4::boolean
    CROSS JOIN LATERAL (
        SELECT tasks.*, tasks.ctid AS version
        FROM taskqueue.ready
        JOIN taskqueue.tasks ON tasks.task_key = ready.task_key
        WHERE ready.queue_key = queues.queue_key AND ready.route = wanted.route AND tasks.status = 'pending'
            AND tasks.unmet IS NULL AND (tasks.not_before IS NULL OR tasks.not_before <= coalesce($5::bigint, (
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

-- name: FIND_READY
-- Whether a task is claimable for a route at the time $4, other than those that this transaction has changed; in the pending order,
-- or not moved there yet by whoever holds it. The keys are looked up in a hash table, which a comparison with a parameter of an array
-- type or a join in a writer's transaction would not make.
SELECT EXISTS (
    SELECT 1
    FROM taskqueue.ready
    JOIN taskqueue.tasks ON tasks.task_key = ready.task_key
    WHERE ready.queue_key = $1::bigint AND ready.route = $2::text AND ready.task_key NOT IN (SELECT unnest($3::bigint[]))
        AND tasks.unmet IS NULL AND (tasks.not_before IS NULL OR tasks.not_before <= $4::bigint)
) OR EXISTS (
    SELECT 1
    FROM taskqueue.delayed
    JOIN taskqueue.tasks ON tasks.task_key = delayed.task_key
    -- As in MOVE_DUE.
    WHERE delayed.queue_key >= $1 AND (delayed.queue_key, delayed.not_before) <= ($1, $4)
        AND delayed.task_key NOT IN (SELECT unnest($3))
        AND tasks.status = 'pending' AND strpos(tasks.routes, '"' || $2 || '"') > 0
    ORDER BY delayed.queue_key, delayed.not_before
    LIMIT 1
);

-- name: CONFIRM_MISSING
-- Of the first $1 tasks that were waited for when they did not exist, removes those that still do not, and those that are to all of
-- their dependents what is noted ($2 are the states of tasks, $3 what they are to others). Those that another transaction is
-- changing stay.
WITH
    doubtful AS MATERIALIZED (
        SELECT unsettled_key, queue_key, dependency
        FROM taskqueue.unsettled
        WHERE was_missing
        ORDER BY unsettled_key
        LIMIT $1::bigint
        FOR UPDATE SKIP LOCKED
    ),
    looked_up AS MATERIALIZED (
        SELECT doubtful.*, seen.id, locked.status
        FROM doubtful
        LEFT JOIN LATERAL (
            SELECT tasks.id FROM taskqueue.tasks
            WHERE tasks.queue_key = doubtful.queue_key AND tasks.id >= doubtful.dependency
                AND tasks.id <= doubtful.dependency
            ORDER BY tasks.id
            LIMIT 1
        ) AS seen ON true
        LEFT JOIN LATERAL (
            SELECT tasks.status FROM taskqueue.tasks
            WHERE tasks.queue_key = doubtful.queue_key AND tasks.id >= doubtful.dependency
                AND tasks.id <= doubtful.dependency
            ORDER BY tasks.id
            LIMIT 1
            FOR SHARE SKIP LOCKED
        ) AS locked ON true
    )
DELETE FROM taskqueue.unsettled
WHERE unsettled_key = ANY (ARRAY(
    SELECT looked_up.unsettled_key
    FROM looked_up
    WHERE looked_up.id IS NULL OR (looked_up.status IS NOT NULL AND NOT EXISTS (
        SELECT 1 FROM taskqueue.dependencies
        WHERE dependencies.queue_key = looked_up.queue_key AND dependencies.dependency = looked_up.dependency
            AND dependencies.state <> ($3::smallint[])[array_position($2::text[], looked_up.status)]
    ))
));

-- name: INSERT_READY
-- Adds pending tasks to the pending order, one row for each route.
INSERT INTO taskqueue.ready (queue_key, route, priority, pending_seq, task_key)
SELECT * FROM unnest($1::bigint[], $2::text[], $3::bigint[], $4::bigint[], $5::bigint[]);

-- name: DELETE_READY
-- Removes tasks from the pending order, by all columns of its index. The pending number identifies the task. Whoever removes an entry
-- holds the task, and entries are never changed, so that none of them moves.
DELETE FROM taskqueue.ready
WHERE ctid = ANY (ARRAY(
    SELECT entry.ctid
    FROM unnest($1::bigint[], $2::text[], $3::bigint[], $4::bigint[]) AS gone (queue_key, route, priority, pending_seq)
    CROSS JOIN LATERAL (
        -- Looked up one by one: where the order was empty a moment ago, the planner would walk over all of it.
        SELECT ready.ctid
        FROM taskqueue.ready
        WHERE ready.queue_key = gone.queue_key AND ready.route = gone.route AND ready.priority = gone.priority
            AND ready.pending_seq = gone.pending_seq
        OFFSET 0
    ) AS entry
));

-- name: MOVE_DUE
-- Moves delayed tasks of the queues $1 whose time has come to the pending order, except those that other transactions hold, and says
-- whether there were such. At most 1000 of each queue: the rest is moved by the next claims. Without $2 the time is that of the
-- service (table `clock`). A task may have been changed after it was found and before it was held, so it is looked at again; a row
-- that is not true of its task any more is removed.
WITH
    found AS MATERIALIZED (
        SELECT found.*
        FROM taskqueue.queues
        CROSS JOIN LATERAL (
            SELECT delayed.queue_key, delayed.not_before, delayed.task_key
            FROM taskqueue.delayed
            -- A range and an order, which only the primary key can serve. By the index of all queues it would read what is due in
            -- others.
            WHERE delayed.queue_key >= queues.queue_key
                AND (delayed.queue_key, delayed.not_before) <= (queues.queue_key, coalesce($2::bigint, (
                    SELECT
                        greatest((extract(epoch FROM clock_timestamp()) * 1000000)::bigint + offset_micros, last_scan_at)
                    FROM taskqueue.clock
                    WHERE one = 1
                )))
            ORDER BY delayed.queue_key, delayed.not_before
            LIMIT 1000
        ) AS found
        WHERE queues.name = ANY($1::text[])
    ),
    due AS MATERIALIZED (
        SELECT
            found.*, tasks.priority, tasks.pending_seq, tasks.routes,
            tasks.status = 'pending' AND tasks.unmet IS NULL
            AND tasks.not_before IS NOT DISTINCT FROM found.not_before AS is_true
        FROM found
        JOIN taskqueue.tasks ON tasks.task_key = found.task_key
        FOR UPDATE OF tasks SKIP LOCKED
    ),
    moved AS (
        DELETE FROM taskqueue.delayed USING due
        WHERE delayed.queue_key = due.queue_key AND delayed.not_before = due.not_before
            AND delayed.task_key = due.task_key
        RETURNING due.queue_key, due.priority, due.pending_seq, due.task_key, due.routes, due.is_true
    ),
    added AS (
        INSERT INTO taskqueue.ready (queue_key, priority, pending_seq, task_key, route)
        SELECT queue_key, priority, pending_seq, task_key, unnest(string_to_array(btrim(routes, '[]"'), '","'))
        FROM moved
        WHERE is_true
    )
SELECT count(*) AS tasks, (SELECT count(*) FROM found) > (SELECT count(*) FROM due) AS some_held FROM moved;

-- name: INSERT_DELAYED
-- Adds pending tasks that are not claimable before a time.
INSERT INTO taskqueue.delayed (queue_key, not_before, task_key)
SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[])
ON CONFLICT DO NOTHING;

-- name: DELETE_DELAYED
-- Removes tasks from the delayed ones.
DELETE FROM taskqueue.delayed
USING unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS gone (queue_key, not_before, task_key)
WHERE delayed.queue_key = gone.queue_key AND delayed.not_before = gone.not_before AND delayed.task_key = gone.task_key;

-- name: BEGIN_RELEASE
-- Tells claims that this transaction moves delayed tasks, so that they wait for its end (AWAIT_RELEASE) instead of passing over
-- what it holds. Nobody else in this database may use the number.
SELECT pg_advisory_xact_lock(7405302117);

-- name: RELEASE_DELAYED
-- Moves delayed tasks of all queues whose time has come by $1 to the pending order, at most $2, except those that other transactions
-- hold. Like MOVE_DUE.
WITH
    due AS MATERIALIZED (
        SELECT
            delayed.queue_key, delayed.not_before, delayed.task_key, tasks.priority, tasks.pending_seq, tasks.routes,
            tasks.status = 'pending' AND tasks.unmet IS NULL
            AND tasks.not_before IS NOT DISTINCT FROM delayed.not_before AS is_true
        FROM taskqueue.delayed
        JOIN taskqueue.tasks ON tasks.task_key = delayed.task_key
        WHERE delayed.not_before <= $1::bigint
        ORDER BY delayed.not_before
        LIMIT $2::bigint
        FOR UPDATE OF tasks SKIP LOCKED
    ),
    moved AS (
        DELETE FROM taskqueue.delayed USING due
        WHERE delayed.queue_key = due.queue_key AND delayed.not_before = due.not_before
            AND delayed.task_key = due.task_key
        RETURNING due.queue_key, due.priority, due.pending_seq, due.task_key, due.routes, due.is_true
    ),
    added AS (
        INSERT INTO taskqueue.ready (queue_key, priority, pending_seq, task_key, route)
        SELECT queue_key, priority, pending_seq, task_key, unnest(string_to_array(btrim(routes, '[]"'), '","'))
        FROM moved
        WHERE is_true
    )
SELECT count(*) AS tasks FROM moved;

-- name: AWAIT_RELEASE
-- Waits for a server that moves delayed tasks (BEGIN_RELEASE), and holds nothing afterwards.
WITH waited AS MATERIALIZED (SELECT pg_advisory_lock_shared(7405302117))
SELECT pg_advisory_unlock_shared(7405302117) FROM waited;

-- name: LOCK_RUNNING
-- Locks the first $2 running tasks whose lease or time ends by $1, except those that other transactions hold.
SELECT {head_columns}
FROM taskqueue.running
CROSS JOIN LATERAL (
    -- Looked up one by one: where nothing was running a moment ago, the planner would read all tasks for each of them.
    SELECT tasks.* FROM taskqueue.tasks
    WHERE tasks.task_key = running.task_key AND least(tasks.lease_expires_at, tasks.times_out_at) <= $1::bigint
    FOR UPDATE SKIP LOCKED
) AS tasks
ORDER BY running.task_key
LIMIT $2::bigint;

-- name: INSERT_RUNNING
-- Adds tasks to the running ones.
INSERT INTO taskqueue.running (task_key, queue_key, route) SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::text[]);

-- name: DELETE_RUNNING
-- Removes tasks from the running ones.
DELETE FROM taskqueue.running WHERE task_key = ANY($1::bigint[]);

-- name: FIND_RUNS
-- Finds what run ids are used for: the task that had them, if it exists, and whether they own it now.
SELECT runs.run_id, tasks.task_key, tasks.queue_key, tasks.run_id IS NOT DISTINCT FROM runs.run_id AS is_active
FROM taskqueue.runs
LEFT JOIN taskqueue.tasks ON tasks.task_key = runs.task_key
WHERE runs.run_id = ANY($1::text[]);

-- name: INSERT_RUNS
-- Adds run ids. It fails if another server has used one since; the batch is then begun again and sees it. The ids of a task
-- that the same batch has deleted stay used until the time $3.
INSERT INTO taskqueue.runs (run_id, task_key, kept_until) SELECT * FROM unnest($1::text[], $2::bigint[], $3::bigint[]);

-- name: FORGET_DELETED_RUNS
-- Forgets the first run ids of deleted tasks whose time is over.
DELETE FROM taskqueue.runs
WHERE run_id = ANY (ARRAY(
    SELECT run_id FROM taskqueue.runs WHERE kept_until <= $1::bigint ORDER BY kept_until, run_id LIMIT $2::bigint
));

-- name: LOCK_TURN
-- Takes the turn to claim in a queue until the end of the transaction. No row: another transaction has it.
SELECT queue_key FROM taskqueue.claim_turns WHERE queue_key = $1::bigint FOR UPDATE SKIP LOCKED;

-- name: INSERT_TURN
-- Adds the row that claims of a queue hold one after the other.
INSERT INTO taskqueue.claim_turns (queue_key) VALUES ($1::bigint) ON CONFLICT DO NOTHING;

-- name: DELETE_TURN
-- Removes the row that claims of a queue hold one after the other.
DELETE FROM taskqueue.claim_turns WHERE queue_key = $1::bigint;

-- name: COUNT_RUNNING
-- Counts the running tasks whose lease or time ends by $1, including those that other transactions hold.
SELECT count(*) AS tasks
FROM taskqueue.running
CROSS JOIN LATERAL (
    -- As in lock_running.
    SELECT tasks.lease_expires_at, tasks.times_out_at FROM taskqueue.tasks WHERE tasks.task_key = running.task_key LIMIT 1
) AS tasks
WHERE least(tasks.lease_expires_at, tasks.times_out_at) <= $1::bigint;

-- name: COUNT_LIMITED
-- Counts the running tasks of a queue that limits claims, by the route that they were claimed for.
SELECT route, count(*) AS tasks FROM taskqueue.running WHERE queue_key = $1::bigint GROUP BY route;

-- name: COUNT_FROM_NOW_ON
-- Notes of the running tasks of a queue which route they were claimed for: from now on they are counted. The caller holds the queue
-- for itself.
UPDATE taskqueue.running SET queue_key = tasks.queue_key, route = tasks.last_route
FROM taskqueue.tasks
WHERE tasks.task_key = running.task_key AND tasks.queue_key = $1::bigint;

-- name: COUNT_NO_MORE
-- Ends the counting of running tasks of a queue.
UPDATE taskqueue.running SET queue_key = NULL, route = NULL WHERE queue_key = $1::bigint;
