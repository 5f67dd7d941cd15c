-- Tasks as a writer loads and saves them.

-- name: LOCK_TASKS
-- Locks tasks by queue and id, except those that other transactions hold, and loads them without their JSON.
SELECT {head_columns}
FROM unnest($1::text[], $2::text[]) AS named (queue, id)
JOIN taskqueue.queues ON queues.name = named.queue
CROSS JOIN LATERAL (
    -- A range and an order, which only the index by id can serve. Without statistics, in a database that is minutes old, the
    -- planner would use an index by queue and read all tasks of the queue.
    SELECT * FROM taskqueue.tasks
    WHERE tasks.queue_key = queues.queue_key AND tasks.id >= named.id AND tasks.id <= named.id
    ORDER BY tasks.id
    LIMIT 1
    FOR UPDATE SKIP LOCKED
) AS tasks;

-- name: LOAD_TASKS
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

-- name: LOAD_TASKS_BY_KEY
-- Loads whole tasks by their keys.
SELECT {task_columns}
FROM taskqueue.tasks
JOIN taskqueue.definitions ON definitions.task_key = tasks.task_key
LEFT JOIN taskqueue.outcomes ON outcomes.task_key = tasks.task_key
WHERE tasks.task_key = ANY($1::bigint[]);

-- name: LOAD_FIRST_TASKS
-- Loads whole tasks by their keys, in the order of the keys: the first one, and those behind it up to $2 bytes and one task. The
-- length of a text is known without reading it.
SELECT {task_columns}
FROM (
    SELECT tasks.*,
        sum(
            tasks.definition_bytes + coalesce(octet_length(outcomes.result), 0)
            + coalesce(octet_length(outcomes.error), 0) + coalesce(octet_length(outcomes.last_run_worker), 0)
            + coalesce(octet_length(outcomes.progress), 0)
        ) OVER (ORDER BY wanted.number ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS bytes_before
    FROM unnest($1::bigint[]) WITH ORDINALITY AS wanted (task_key, number)
    JOIN taskqueue.tasks ON tasks.task_key = wanted.task_key
    LEFT JOIN taskqueue.outcomes ON outcomes.task_key = tasks.task_key
) AS tasks
JOIN taskqueue.definitions ON definitions.task_key = tasks.task_key
LEFT JOIN taskqueue.outcomes ON outcomes.task_key = tasks.task_key
WHERE coalesce(tasks.bytes_before, 0) < $2::bigint;

-- name: LOAD_HEADS
-- Loads tasks without their JSON. Unless the caller holds their queue for itself, they may have changed since.
SELECT {head_columns}
FROM taskqueue.tasks
WHERE tasks.task_key = ANY($1::bigint[]);

-- name: LOAD_DOCUMENTS
-- Loads args and metadata of tasks. The caller holds their queue for itself.
SELECT task_key, args, metadata
FROM taskqueue.definitions
WHERE task_key = ANY($1::bigint[]);

-- name: LOAD_IDENTITIES
-- Loads tasks by queue and id, with the identities that they were created with and without their JSON.
SELECT {head_columns}, definitions.identity
FROM unnest($1::text[], $2::text[]) AS named (queue, id)
JOIN taskqueue.queues ON queues.name = named.queue
CROSS JOIN LATERAL (
    -- A range and an order, which only the index by id can serve (lock_tasks).
    SELECT * FROM taskqueue.tasks
    WHERE tasks.queue_key = queues.queue_key AND tasks.id >= named.id AND tasks.id <= named.id
    ORDER BY tasks.id
    LIMIT 1
) AS tasks
JOIN taskqueue.definitions ON definitions.task_key = tasks.task_key;

-- name: LOAD_RESULT_SIZES
-- Loads the sizes of the results of tasks, by queue and id. The length of a text is known without reading it.
SELECT tasks.task_key, octet_length(outcomes.result) AS bytes
FROM unnest($1::text[], $2::text[]) AS named (queue, id)
JOIN taskqueue.queues ON queues.name = named.queue
CROSS JOIN LATERAL (
    -- A range and an order, which only the index by id can serve (lock_tasks).
    SELECT task_key FROM taskqueue.tasks
    WHERE tasks.queue_key = queues.queue_key AND tasks.id >= named.id AND tasks.id <= named.id
    ORDER BY tasks.id
    LIMIT 1
) AS tasks
LEFT JOIN taskqueue.outcomes ON outcomes.task_key = tasks.task_key;

-- name: FIND_TASKS
-- Finds which of these tasks of a queue exist.
SELECT tasks.id
FROM unnest($2::text[]) AS named (id)
CROSS JOIN LATERAL (
    -- A range and an order, which only the index by id can serve (lock_tasks).
    SELECT id FROM taskqueue.tasks
    WHERE tasks.queue_key = $1::bigint AND tasks.id >= named.id AND tasks.id <= named.id
    ORDER BY tasks.id
    LIMIT 1
) AS tasks;

-- name: LOCK_FOUND
-- Locks tasks by their keys, except those that other transactions hold, and loads them without their JSON, with the version of
-- their row. $2 is their queue.
SELECT {head_columns}, tasks.xmin::text::bigint AS version
FROM taskqueue.tasks
WHERE tasks.task_key = ANY($1::bigint[]) AND tasks.queue_key = $2::bigint
FOR UPDATE SKIP LOCKED;

-- name: LIST_CHANGED
-- Lists tasks of a queue whose row was written by a transaction that a snapshot does not see, at most $3. The caller holds
-- the queue for itself and has written something.
-- A row stores the last 32 bits of the number of its transaction. Its age tells whether it is older than everything that
-- was open at the snapshot. That is right for every row written since. The age of very old rows may have become negative;
-- some of them are listed without need. It is slightly negative for transactions that began after ours and committed
-- first. For all other rows the whole number is computed from the age.
WITH known AS MATERIALIZED (
    SELECT $2::text::pg_snapshot AS snapshot, pg_current_xact_id()::text::bigint AS newest
)
SELECT task_key
FROM taskqueue.tasks
WHERE queue_key = $1::bigint AND CASE
    WHEN age(xmin) > (SELECT age(pg_snapshot_xmin(snapshot)::xid) FROM known) THEN false
    WHEN age(xmin) < -10000000 THEN false
    ELSE NOT pg_visible_in_snapshot(
        ((SELECT newest FROM known) - age(xmin))::text::xid8, (SELECT snapshot FROM known)
    )
END
LIMIT $3::bigint;

-- name: LIST_DELETED
-- Lists those of these tasks that no longer exist.
SELECT task_key FROM unnest($1::bigint[]) AS known (task_key)
WHERE NOT EXISTS (SELECT FROM taskqueue.tasks WHERE tasks.task_key = known.task_key);

-- name: INSERT_TASKS
-- Adds the narrow rows of new tasks.
INSERT INTO taskqueue.tasks (
    task_key, status, attempt, pending_seq, last_route, updated_at, started_at, finished_at, run_id,
    lease_expires_at, finished_run_id, finished_run_end, progress_bytes, not_before, unmet, archived, times_out_at,
    priority, max_attempts, routes, definition_bytes, scheduling, queue_key, id, name, created_at
)
SELECT * FROM unnest(
    $1::bigint[], $2::text[], $3::bigint[], $4::bigint[], $5::text[], $6::bigint[], $7::bigint[], $8::bigint[],
    $9::text[], $10::bigint[], $11::text[], $12::text[], $13::bigint[], $14::bigint[], $15::integer[],
    $16::boolean[], $17::bigint[], $18::bigint[], $19::bigint[], $20::text[], $21::bigint[], $22::text[],
    $23::bigint[], $24::text[], $25::text[], $26::bigint[]
);

-- name: INSERT_DEFINITIONS
-- Adds the definitions of new tasks.
INSERT INTO taskqueue.definitions (task_key, identity, args, metadata)
SELECT * FROM unnest($1::bigint[], $2::bytea[], $3::text[], $4::text[]);

-- name: SAVE_LIFECYCLES
-- Saves what actions change in the narrow rows of tasks.
UPDATE taskqueue.tasks SET
    status = saved.status, attempt = saved.attempt, pending_seq = saved.pending_seq, last_route = saved.last_route,
    updated_at = saved.updated_at, started_at = saved.started_at, finished_at = saved.finished_at, run_id =
    saved.run_id, lease_expires_at = saved.lease_expires_at, finished_run_id = saved.finished_run_id,
    finished_run_end = saved.finished_run_end, progress_bytes = saved.progress_bytes,
    not_before = saved.not_before, unmet = saved.unmet, archived = saved.archived, times_out_at = saved.times_out_at
FROM unnest(
    $1::bigint[], $2::text[], $3::bigint[], $4::bigint[], $5::text[], $6::bigint[], $7::bigint[], $8::bigint[],
    $9::text[], $10::bigint[], $11::text[], $12::text[],
    $13::bigint[], $14::bigint[], $15::integer[], $16::boolean[], $17::bigint[]
) AS saved (
    task_key, status, attempt, pending_seq, last_route, updated_at, started_at, finished_at, run_id,
    lease_expires_at, finished_run_id, finished_run_end, progress_bytes, not_before, unmet, archived,
    times_out_at
)
WHERE tasks.task_key = saved.task_key;

-- name: SAVE_HEADS
-- Saves what updates change in the narrow rows of tasks, except their names.
UPDATE taskqueue.tasks SET
    priority = saved.priority, max_attempts = saved.max_attempts, routes = saved.routes,
    definition_bytes = saved.definition_bytes, updated_at = saved.updated_at, scheduling = saved.scheduling
FROM unnest(
    $1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::text[], $6::bigint[], $7::text[]
) AS saved (
    task_key, updated_at, priority, max_attempts, routes, definition_bytes, scheduling
)
WHERE tasks.task_key = saved.task_key;

-- name: SAVE_NAMES
-- Saves the names of tasks.
UPDATE taskqueue.tasks SET name = saved.name
FROM unnest($1::bigint[], $2::text[]) AS saved (task_key, name)
WHERE tasks.task_key = saved.task_key;

-- name: SAVE_DEFINITIONS
-- Saves args and metadata of tasks.
UPDATE taskqueue.definitions SET
    args = saved.args, metadata = saved.metadata
FROM unnest(
    $1::bigint[], $2::text[], $3::text[]
) AS saved (
    task_key, args, metadata
)
WHERE definitions.task_key = saved.task_key;

-- name: SAVE_RESULTS
-- Saves the results of tasks.
INSERT INTO taskqueue.outcomes (task_key, result) SELECT * FROM unnest($1::bigint[], $2::text[])
ON CONFLICT (task_key) DO UPDATE SET result = excluded.result;

-- name: CLEAR_RESULTS
-- Removes the results of tasks. An empty result needs no row.
UPDATE taskqueue.outcomes SET result = NULL WHERE task_key = ANY($1::bigint[]);

-- name: SAVE_ERRORS
-- Saves the last errors of tasks.
INSERT INTO taskqueue.outcomes (task_key, error, error_occurred_at, error_attempt, error_run_id)
SELECT * FROM unnest($1::bigint[], $2::text[], $3::bigint[], $4::bigint[], $5::text[])
ON CONFLICT (task_key) DO UPDATE SET
    error = excluded.error, error_occurred_at = excluded.error_occurred_at, error_attempt = excluded.error_attempt,
    error_run_id = excluded.error_run_id;

-- name: CLEAR_ERRORS
-- Removes the last errors of tasks.
UPDATE taskqueue.outcomes SET error = NULL, error_occurred_at = NULL, error_attempt = NULL, error_run_id = NULL
WHERE task_key = ANY($1::bigint[]);

-- name: SAVE_LAST_RUNS
-- Saves who runs tasks, as their claims said.
INSERT INTO taskqueue.outcomes (task_key, last_run_attempt, last_run_worker)
SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::text[])
ON CONFLICT (task_key) DO UPDATE SET
    last_run_attempt = excluded.last_run_attempt, last_run_worker = excluded.last_run_worker;

-- name: CLEAR_LAST_RUNS
-- Removes who ran tasks: their latest claims did not say it.
UPDATE taskqueue.outcomes SET last_run_attempt = NULL, last_run_worker = NULL WHERE task_key = ANY($1::bigint[]);

-- name: SAVE_PROGRESS
-- Saves how far runs are.
INSERT INTO taskqueue.outcomes (task_key, progress, progress_updated_at, progress_attempt)
SELECT * FROM unnest($1::bigint[], $2::text[], $3::bigint[], $4::bigint[])
ON CONFLICT (task_key) DO UPDATE SET
    progress = excluded.progress, progress_updated_at = excluded.progress_updated_at,
    progress_attempt = excluded.progress_attempt;

-- name: CLEAR_PROGRESS
-- Removes how far earlier runs were: their tasks were claimed again.
UPDATE taskqueue.outcomes SET progress = NULL, progress_updated_at = NULL, progress_attempt = NULL
WHERE task_key = ANY($1::bigint[]);

-- name: SAVE_ONE_ARGS
-- Gives tasks the same args: a bulk update sends the value once.
UPDATE taskqueue.definitions SET args = $2::text WHERE task_key = ANY($1::bigint[]);

-- name: SAVE_ONE_METADATA
-- Gives tasks the same metadata: a bulk update sends the value once.
UPDATE taskqueue.definitions SET metadata = $2::text WHERE task_key = ANY($1::bigint[]);

-- name: SAVE_ONE_RESULT
-- Gives tasks the same result: a bulk update sends the value once.
INSERT INTO taskqueue.outcomes (task_key, result) SELECT task_key, $2::text FROM unnest($1::bigint[]) AS tasks (task_key)
ON CONFLICT (task_key) DO UPDATE SET result = excluded.result;

-- name: DELETE_TASKS
-- Deletes tasks, except their rows in the derived tables, which have statements of their own. Their run ids stay used until $2. The pieces of their
-- output are purged later, some at a time: there may be hundreds for each task.
WITH
    kept_runs AS (UPDATE taskqueue.runs SET kept_until = $2::bigint WHERE task_key = ANY($1::bigint[])),
    deleted_outcomes AS (DELETE FROM taskqueue.outcomes WHERE task_key = ANY($1)),
    deleted_definitions AS (DELETE FROM taskqueue.definitions WHERE task_key = ANY($1)),
    deleted_outputs AS (DELETE FROM taskqueue.outputs WHERE task_key = ANY($1) RETURNING task_key),
    noted AS (INSERT INTO taskqueue.output_purges (task_key) SELECT task_key FROM deleted_outputs)
DELETE FROM taskqueue.tasks WHERE task_key = ANY($1);
