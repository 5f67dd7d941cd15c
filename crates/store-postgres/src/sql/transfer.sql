-- Transfers from one database to another.

-- name: CHECK_EMPTY
-- Whether the database holds nothing, not even tasks of a deleted queue.
SELECT
    NOT EXISTS (SELECT 1 FROM taskqueue.queues) AND NOT EXISTS (SELECT 1 FROM taskqueue.tasks)
    AND NOT EXISTS (SELECT 1 FROM taskqueue.purges);

-- name: LOAD_QUEUES
-- Loads all queues for a transfer.
SELECT queue_key, name FROM taskqueue.queues ORDER BY name;

-- name: LIST_WHOLE_TALLY
-- Sums the counts of every existing queue by status, over the shards.
SELECT tally.queue_key, tally.status, sum(tally.tasks)::bigint AS tasks
FROM taskqueue.tally
JOIN taskqueue.queues ON queues.queue_key = tally.queue_key
GROUP BY tally.queue_key, tally.status;

-- name: TRANSFER_TASKS
-- Lists whole tasks of the queues $2 with all their run ids after the key $1, by key, for a transfer. With their output, which
-- is loaded later, they have at most $3 bytes and one task. Like LIST_TASKS it finds the narrow rows first. The limit (CHUNK_TASKS) is a number here, so that
-- the plan cannot be one for any number of rows.
SELECT tasks.*
FROM (
    SELECT
        {task_columns},
        ARRAY(SELECT runs.run_id FROM taskqueue.runs WHERE runs.task_key = tasks.task_key) AS runs,
        sum(
            tasks.definition_bytes + coalesce(octet_length(outcomes.result), 0)
            + coalesce(octet_length(outcomes.error), 0) + coalesce(octet_length(outcomes.last_run_worker), 0)
            + coalesce(octet_length(outcomes.progress), 0) + coalesce(outputs.bytes, 0)
        ) OVER (ORDER BY tasks.task_key ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS bytes_before
    FROM (
        SELECT tasks.*
        FROM taskqueue.tasks
        WHERE tasks.task_key > $1::bigint AND tasks.queue_key = ANY($2::bigint[])
        ORDER BY tasks.task_key
        LIMIT 500
    ) AS tasks
    JOIN LATERAL (
        SELECT * FROM taskqueue.definitions WHERE definitions.task_key = tasks.task_key LIMIT 1
    ) AS definitions ON true
    LEFT JOIN LATERAL (
        SELECT * FROM taskqueue.outcomes WHERE outcomes.task_key = tasks.task_key LIMIT 1
    ) AS outcomes ON true
    LEFT JOIN LATERAL (
        SELECT * FROM taskqueue.outputs WHERE outputs.task_key = tasks.task_key LIMIT 1
    ) AS outputs ON true
) AS tasks
WHERE coalesce(tasks.bytes_before, 0) < $3::bigint
ORDER BY tasks.task_key;

-- name: LOAD_OUTPUT_PIECES
-- Loads all pieces of the output of tasks.
SELECT task_key, start, bytes
FROM taskqueue.output_pieces
WHERE task_key = ANY($1::bigint[])
ORDER BY task_key, start;

-- name: TRANSFER_DELETED_RUNS
-- Lists run ids of deleted tasks after one of them, by time and id, for a transfer. Also those of tasks that are still
-- being purged.
SELECT run_id, kept_until
FROM (
    SELECT kept_until, run_id FROM taskqueue.runs WHERE kept_until IS NOT NULL AND (kept_until, run_id) > ($1::bigint, $2::text)
    UNION ALL
    SELECT purges.kept_until, runs.run_id
    FROM taskqueue.purges
    JOIN taskqueue.tasks ON tasks.queue_key = purges.queue_key
    JOIN taskqueue.runs ON runs.task_key = tasks.task_key
) AS deleted
WHERE (kept_until, run_id) > ($1, $2)
ORDER BY kept_until, run_id
LIMIT $3::bigint;

-- name: CLEAR_DELETED_RUNS
-- Forgets the run ids of all deleted tasks, before a transfer adds those of the other database.
DELETE FROM taskqueue.runs WHERE kept_until IS NOT NULL;

-- name: TRANSFER_DEPENDENCIES
-- Lists what is noted of these dependencies of tasks, for a transfer.
SELECT dependencies.queue_key, dependencies.dependency, dependencies.task_key, dependencies.state, true AS is_there
FROM unnest($1::bigint[], $2::text[], $3::bigint[]) AS named (queue_key, dependency, task_key)
JOIN taskqueue.dependencies
    ON dependencies.queue_key = named.queue_key AND dependencies.dependency = named.dependency
    AND dependencies.task_key = named.task_key;

-- name: TRANSFER_UNSETTLED
-- Lists the tasks of a queue whose dependents are to be looked at again, for a transfer.
SELECT DISTINCT dependency FROM taskqueue.unsettled WHERE queue_key = $1::bigint AND NOT was_missing ORDER BY dependency;

-- name: RAISE_NUMBERS
-- Makes all further numbers larger than $1.
SELECT setval('taskqueue.numbers', greatest(nextval('taskqueue.numbers'), $1::bigint));

-- name: COUNT_DERIVED
-- Counts what is derived from the tasks of the queues $1: running tasks, pending entries (one per task and route, also
-- of tasks that wait beside the pending order), run ids;
-- and observations. A transfer compares the counts of both databases.
SELECT
    (SELECT count(*) FROM taskqueue.running JOIN taskqueue.tasks USING (task_key) WHERE tasks.queue_key = ANY($1::bigint[]))
        AS running,
    (SELECT count(*) FROM taskqueue.ready WHERE ready.queue_key = ANY($1)) + coalesce((
        SELECT sum(array_length(string_to_array(tasks.routes, ','), 1))
        FROM taskqueue.tasks
        WHERE tasks.queue_key = ANY($1) AND tasks.status = 'pending' AND (tasks.unmet IS NOT NULL OR EXISTS (
            SELECT 1 FROM taskqueue.delayed
            WHERE delayed.queue_key = tasks.queue_key AND delayed.not_before = tasks.not_before
                AND delayed.task_key = tasks.task_key
        ))
    ), 0) AS pending,
    (SELECT count(*) FROM taskqueue.runs JOIN taskqueue.tasks USING (task_key) WHERE tasks.queue_key = ANY($1)) AS runs,
    (SELECT count(*) FROM taskqueue.observations WHERE observations.queue_key = ANY($1)) AS observations;
