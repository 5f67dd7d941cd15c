-- The check of a database: each statement lists what is wrong.

-- name: CHECK_TALLY
-- Lists the counts that are not the numbers of tasks, for a check.
SELECT
    queues.name, status, left(routes, 200) AS routes,
    coalesce(kept.tasks, 0) AS kept, coalesce(found.tasks, 0) AS found
FROM (
    SELECT queue_key, routes, status, shard < 0 AS archived, sum(tasks)::bigint AS tasks
    FROM taskqueue.tally
    GROUP BY queue_key, routes, status, shard < 0
) AS kept
FULL JOIN (
    SELECT queue_key, routes, status, coalesce(archived, false) AS archived, count(*) AS tasks
    FROM taskqueue.tasks
    GROUP BY queue_key, routes, status, coalesce(archived, false)
) AS found USING (queue_key, routes, status, archived)
JOIN taskqueue.queues USING (queue_key)
WHERE coalesce(kept.tasks, 0) <> coalesce(found.tasks, 0)
ORDER BY queues.name, routes, status;

-- name: CHECK_SETTINGS
-- Lists the settings of queues, and what is derived from them, for a check.
SELECT
    queues.queue_key, queues.name, queues.settings, queues.takes_turns,
    EXISTS (SELECT 1 FROM taskqueue.claim_turns WHERE claim_turns.queue_key = queues.queue_key) AS has_turn,
    ARRAY(
        SELECT retention.status FROM taskqueue.retention WHERE retention.queue_key = queues.queue_key ORDER BY retention.status
    ) AS limited_states
FROM taskqueue.queues;

-- name: CHECK_REFERENCES
-- Lists rows that belong to nothing, for a check: what is wrong, and the key of the row.
SELECT 'a task without a definition' AS what, tasks.task_key
FROM taskqueue.tasks
WHERE NOT EXISTS (SELECT 1 FROM taskqueue.definitions WHERE definitions.task_key = tasks.task_key)
UNION ALL
SELECT 'a task of a queue that does not exist', tasks.task_key
FROM taskqueue.tasks
WHERE NOT EXISTS (SELECT 1 FROM taskqueue.queues WHERE queues.queue_key = tasks.queue_key)
    AND NOT EXISTS (SELECT 1 FROM taskqueue.purges WHERE purges.queue_key = tasks.queue_key)
UNION ALL
SELECT 'a definition without a task', definitions.task_key
FROM taskqueue.definitions
WHERE NOT EXISTS (SELECT 1 FROM taskqueue.tasks WHERE tasks.task_key = definitions.task_key)
UNION ALL
SELECT 'an outcome without a task', outcomes.task_key
FROM taskqueue.outcomes
WHERE NOT EXISTS (SELECT 1 FROM taskqueue.tasks WHERE tasks.task_key = outcomes.task_key)
UNION ALL
SELECT 'output without a task', outputs.task_key
FROM taskqueue.outputs
WHERE NOT EXISTS (SELECT 1 FROM taskqueue.tasks WHERE tasks.task_key = outputs.task_key)
UNION ALL
SELECT 'a piece of output that is neither kept nor being removed', output_pieces.task_key
FROM taskqueue.output_pieces
WHERE NOT EXISTS (SELECT 1 FROM taskqueue.outputs WHERE outputs.task_key = output_pieces.task_key)
    AND NOT EXISTS (SELECT 1 FROM taskqueue.output_purges WHERE output_purges.task_key = output_pieces.task_key)
UNION ALL
SELECT 'an entry of the pending order of a queue that does not exist', ready.task_key
FROM taskqueue.ready
WHERE NOT EXISTS (SELECT 1 FROM taskqueue.queues WHERE queues.queue_key = ready.queue_key)
    AND NOT EXISTS (SELECT 1 FROM taskqueue.purges WHERE purges.queue_key = ready.queue_key)
UNION ALL
SELECT 'a delayed task that does not exist', delayed.task_key
FROM taskqueue.delayed
WHERE NOT EXISTS (SELECT 1 FROM taskqueue.tasks WHERE tasks.task_key = delayed.task_key)
    AND NOT EXISTS (SELECT 1 FROM taskqueue.purges WHERE purges.queue_key = delayed.queue_key)
UNION ALL
SELECT 'an observation of a queue that does not exist', observations.queue_key
FROM taskqueue.observations
WHERE NOT EXISTS (SELECT 1 FROM taskqueue.queues WHERE queues.queue_key = observations.queue_key)
UNION ALL
SELECT 'a count of a queue that does not exist', tally.queue_key
FROM taskqueue.tally
WHERE NOT EXISTS (SELECT 1 FROM taskqueue.queues WHERE queues.queue_key = tally.queue_key)
UNION ALL
SELECT 'a queue that exists and is being removed', purges.queue_key
FROM taskqueue.purges
WHERE EXISTS (SELECT 1 FROM taskqueue.queues WHERE queues.queue_key = purges.queue_key);

-- name: CHECK_PENDING_ORDER
-- Lists where the pending order and the pending tasks of existing queues differ, for a check. Delayed tasks are in
-- it or among the delayed ones, tasks that wait for others in neither. A row of the delayed ones that is not true of its task is no
-- damage: it is removed when its time comes.
WITH
    expected AS (
        SELECT
            tasks.queue_key, tasks.priority, tasks.pending_seq, tasks.task_key,
            unnest(string_to_array(btrim(tasks.routes, '[]"'), '","')) COLLATE "C" AS route
        FROM taskqueue.tasks
        JOIN taskqueue.queues USING (queue_key)
        WHERE tasks.status = 'pending' AND tasks.unmet IS NULL AND NOT EXISTS (
            SELECT 1 FROM taskqueue.delayed
            WHERE delayed.queue_key = tasks.queue_key AND delayed.not_before = tasks.not_before
                AND delayed.task_key = tasks.task_key
        )
    ),
    found AS (
        SELECT ready.queue_key, ready.priority, ready.pending_seq, ready.task_key, ready.route
        FROM taskqueue.ready
        JOIN taskqueue.queues USING (queue_key)
    )
SELECT 'a pending task is not in the pending order' AS what, task_key
FROM (SELECT * FROM expected EXCEPT ALL SELECT * FROM found) AS missing
UNION ALL
SELECT 'the pending order has an entry that no pending task has', task_key
FROM (SELECT * FROM found EXCEPT ALL SELECT * FROM expected) AS extra;

-- name: CHECK_RUNNING
-- Lists where the list of running tasks and the running tasks differ, for a check.
SELECT 'a running task is not in the list of running tasks' AS what, tasks.task_key
FROM taskqueue.tasks
WHERE tasks.status = 'running' AND NOT EXISTS (SELECT 1 FROM taskqueue.running WHERE running.task_key = tasks.task_key)
UNION ALL
SELECT 'the list of running tasks has one that is not running', running.task_key
FROM taskqueue.running
WHERE NOT EXISTS (
    SELECT 1 FROM taskqueue.tasks WHERE tasks.task_key = running.task_key AND tasks.status = 'running'
);

-- name: CHECK_RUN_IDS
-- Lists runs of tasks that are not among the used run ids as theirs, and used run ids of nothing, for a check. One run id in two
-- tasks is found this way, too: it can be among the used ones for one of them only.
SELECT 'a run of the task is not known to be used by it' AS what, tasks.task_key
FROM taskqueue.tasks
CROSS JOIN LATERAL (VALUES (tasks.run_id), (tasks.finished_run_id)) AS own (run_id)
WHERE own.run_id IS NOT NULL
    AND NOT EXISTS (SELECT 1 FROM taskqueue.runs WHERE runs.run_id = own.run_id AND runs.task_key = tasks.task_key)
UNION ALL
SELECT 'a used run id belongs to no task', runs.task_key
FROM taskqueue.runs
WHERE runs.kept_until IS NULL AND NOT EXISTS (SELECT 1 FROM taskqueue.tasks WHERE tasks.task_key = runs.task_key);

-- name: CHECK_DEPENDENCIES
-- Lists where what is noted of dependencies and what tasks wait for differ, for a check.
WITH
    expected AS (
        SELECT
            tasks.queue_key, tasks.task_key,
            unnest(string_to_array(btrim(substring(tasks.scheduling, '"dependencies":\[([^]]*)\]'), '"'), '","'))
                COLLATE "C" AS dependency
        FROM taskqueue.tasks
        JOIN taskqueue.queues USING (queue_key)
        WHERE tasks.scheduling IS NOT NULL
    ),
    found AS (
        SELECT dependencies.queue_key, dependencies.task_key, dependencies.dependency
        FROM taskqueue.dependencies
        JOIN taskqueue.queues USING (queue_key)
    )
SELECT 'it is not noted that a task waits for another one' AS what, task_key
FROM (SELECT * FROM expected EXCEPT ALL SELECT * FROM found) AS missing
UNION ALL
SELECT 'it is noted that a task waits for another one which it does not name', task_key
FROM (SELECT * FROM found EXCEPT ALL SELECT * FROM expected) AS extra
UNION ALL
SELECT 'a task counts another number of unmet dependencies than is noted', tasks.task_key
FROM taskqueue.tasks
JOIN taskqueue.queues USING (queue_key)
LEFT JOIN (
    -- 1 is a dependency that has succeeded (`DependencyState::ALL`).
    SELECT task_key, count(*) AS unmet FROM taskqueue.dependencies WHERE state <> 1 GROUP BY task_key
) AS noted ON noted.task_key = tasks.task_key
WHERE coalesce(tasks.unmet, 0) <> coalesce(noted.unmet, 0);

-- name: CHECK_LIMITED
-- Lists running tasks that are counted although their queue limits no claims, or not counted as they should, for a check.
SELECT 'a running task is not counted as its queue needs it' AS what, tasks.task_key
FROM taskqueue.running
JOIN taskqueue.tasks ON tasks.task_key = running.task_key
LEFT JOIN taskqueue.claim_turns ON claim_turns.queue_key = tasks.queue_key
WHERE running.queue_key IS DISTINCT FROM claim_turns.queue_key
    OR (claim_turns.queue_key IS NOT NULL AND running.route IS DISTINCT FROM tasks.last_route);

-- name: CHECK_ENDED
-- Lists ended tasks that their queue keeps for a limited time, and that would never be found, for a check.
SELECT 'a task has ended, and would never be deleted as the settings say' AS what, tasks.task_key
FROM taskqueue.tasks
JOIN taskqueue.retention ON retention.queue_key = tasks.queue_key AND retention.status = tasks.status
WHERE NOT EXISTS (SELECT 1 FROM taskqueue.ended_readings WHERE ended_readings.queue_key = tasks.queue_key)
    AND NOT EXISTS (
        SELECT 1 FROM taskqueue.ended
        WHERE ended.queue_key = tasks.queue_key AND ended.status = tasks.status
            AND ended.ended_at = coalesce(tasks.finished_at, tasks.updated_at) AND ended.task_key = tasks.task_key
    );

-- name: CHECK_OBSERVATIONS
-- Lists all observations of a queue, for a check.
SELECT {observation_columns} FROM taskqueue.observations WHERE queue_key = $1::bigint;

-- name: CHECK_OUTPUTS
-- Lists what is kept of the output of tasks after the key $1 and up to $2, with the numbers that are noted beside it and the
-- places of its pieces, for a check.
SELECT
    outputs.task_key, outputs.run_id, outputs.attempt, outputs.parts, outputs.last_start, outputs.end_offset, outputs.bytes,
    ARRAY(
        SELECT output_pieces.start FROM taskqueue.output_pieces
        WHERE output_pieces.task_key = outputs.task_key ORDER BY output_pieces.start
    ) AS starts,
    ARRAY(
        SELECT octet_length(output_pieces.bytes)::bigint FROM taskqueue.output_pieces
        WHERE output_pieces.task_key = outputs.task_key ORDER BY output_pieces.start
    ) AS lengths
FROM taskqueue.outputs
WHERE outputs.task_key > $1::bigint AND outputs.task_key <= $2::bigint;
