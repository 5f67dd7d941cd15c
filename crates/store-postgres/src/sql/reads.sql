-- Reads of tasks. Some are completed with a condition and an order (`dialect/order.rs`).

-- name: GET_TASK
-- Reads a task by its queue and id. No row: no such queue; a row of nulls: no such task.
SELECT {task_columns}
FROM taskqueue.queues
LEFT JOIN taskqueue.tasks ON tasks.queue_key = queues.queue_key AND tasks.id = $2::text
LEFT JOIN taskqueue.definitions ON definitions.task_key = tasks.task_key
LEFT JOIN taskqueue.outcomes ON outcomes.task_key = tasks.task_key
WHERE queues.name = $1::text;

-- name: LIST_TASKS
-- Lists whole tasks in the default order. The innermost SELECT finds $2 of them in the narrow rows. Only these are joined
-- with their JSON, one by one (LIMIT 1 prevents the planner from reading all JSON of all queues after a wrong estimate).
-- At most $3 bytes and one task are sent.
-- Other lists are composed (`dialect/order.rs`): a condition replaces `true`, another order replaces this one. The inner
-- joins are for conditions; the planner removes those that are not needed.
SELECT tasks.*
FROM (
    SELECT
        {task_columns},
        sum(
            tasks.definition_bytes + coalesce(octet_length(outcomes.result), 0)
            + coalesce(octet_length(outcomes.error), 0) + coalesce(octet_length(outcomes.last_run_worker), 0)
            + coalesce(octet_length(outcomes.progress), 0)
        ) OVER (
            ORDER BY tasks.created_at DESC, tasks.id DESC ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS bytes_before
    FROM (
        SELECT tasks.*
        FROM taskqueue.tasks
        LEFT JOIN taskqueue.definitions ON definitions.task_key = tasks.task_key
        LEFT JOIN taskqueue.outcomes ON outcomes.task_key = tasks.task_key
        WHERE tasks.queue_key = $1::bigint AND true
        ORDER BY tasks.created_at DESC, tasks.id DESC
        LIMIT $2::bigint
    ) AS tasks
    LEFT JOIN LATERAL (
        SELECT * FROM taskqueue.definitions WHERE definitions.task_key = tasks.task_key LIMIT 1
    ) AS definitions ON true
    LEFT JOIN LATERAL (
        SELECT * FROM taskqueue.outcomes WHERE outcomes.task_key = tasks.task_key LIMIT 1
    ) AS outcomes ON true
) AS tasks
WHERE coalesce(tasks.bytes_before, 0) < $3::bigint
ORDER BY tasks.created_at DESC, tasks.id DESC;

-- name: LIST_MATCHING
-- Lists the whole tasks of a queue. A condition takes the place of `true` (`dialect/order.rs`).
SELECT {task_columns}
FROM taskqueue.tasks
JOIN taskqueue.definitions ON definitions.task_key = tasks.task_key
LEFT JOIN taskqueue.outcomes ON outcomes.task_key = tasks.task_key
WHERE tasks.queue_key = $1::bigint AND true;

-- name: SCAN_TASKS
-- Reads the tasks of a queue in no order, with the JSON that a filter reads: definitions if $2, outcomes if $3. Other JSON is
-- a constant null, and its join is removed by the planner.
SELECT {filtered_columns}
FROM taskqueue.tasks
LEFT JOIN taskqueue.definitions ON definitions.task_key = tasks.task_key
LEFT JOIN taskqueue.outcomes ON outcomes.task_key = tasks.task_key
WHERE tasks.queue_key = $1::bigint AND true;

-- name: COUNT_TASKS
-- Counts the tasks of a queue that meet a condition, which replaces `true`. The planner removes the joins that the condition
-- does not need.
SELECT count(*) AS tasks
FROM taskqueue.tasks
LEFT JOIN taskqueue.definitions ON definitions.task_key = tasks.task_key
LEFT JOIN taskqueue.outcomes ON outcomes.task_key = tasks.task_key
WHERE tasks.queue_key = $1::bigint AND true;

-- name: GROUP_TASKS
-- Counts the tasks of a queue that meet a condition, which replaces `true`, by routes and status. The planner removes the
-- joins that the condition does not need.
SELECT tasks.routes, tasks.status, count(*) AS tasks
FROM taskqueue.tasks
LEFT JOIN taskqueue.definitions ON definitions.task_key = tasks.task_key
LEFT JOIN taskqueue.outcomes ON outcomes.task_key = tasks.task_key
WHERE tasks.queue_key = $1::bigint AND true
GROUP BY tasks.routes, tasks.status;

-- name: FIND_SELECTED
-- Finds tasks of a queue with keys above $4 and up to $5, with the version of their row and the JSON that a filter reads:
-- definitions if $2, outcomes if $3. A condition takes the place of `true` (`dialect/order.rs`), and an order may follow.
SELECT {filtered_columns}, tasks.xmin::text::bigint AS version
FROM taskqueue.tasks
LEFT JOIN taskqueue.definitions ON definitions.task_key = tasks.task_key
LEFT JOIN taskqueue.outcomes ON outcomes.task_key = tasks.task_key
WHERE tasks.queue_key = $1::bigint AND tasks.task_key > $4::bigint AND tasks.task_key <= $5::bigint AND true

-- name: LIST_KEYS_BY_STATUS
-- Lists the keys of the tasks of the queue $1 that have one of the states $2, `succeeded` excepted. They are found in the tables
-- that hold only tasks of one state, and then looked up by their key. The array keeps the planner from any other way.
SELECT tasks.task_key
FROM taskqueue.tasks
WHERE tasks.task_key = ANY (ARRAY(
    SELECT task_key FROM taskqueue.unsuccessful WHERE queue_key = $1::bigint AND status = ANY($2::text[])
    UNION ALL
    SELECT task_key FROM taskqueue.running WHERE 'running' = ANY($2)
    UNION ALL
    SELECT task_key FROM taskqueue.ready WHERE queue_key = $1 AND 'pending' = ANY($2)
    UNION ALL
    SELECT task_key FROM taskqueue.delayed WHERE queue_key = $1 AND 'pending' = ANY($2)
    UNION ALL
    -- Pending tasks that are in neither have a dependency that has not succeeded (1 in `DependencyState::ALL`).
    SELECT task_key FROM taskqueue.dependencies WHERE queue_key = $1 AND state <> 1 AND 'pending' = ANY($2)
)) AND tasks.queue_key = $1 AND tasks.status = ANY($2);

-- name: GET_RELATED
-- Reads what is shown of tasks beside another one. Those that do not exist are left out.
SELECT tasks.id, tasks.status, tasks.name
FROM unnest($2::text[]) AS named (id)
CROSS JOIN LATERAL (
    -- A range and an order, which only the index by id can serve (lock_tasks).
    SELECT tasks.id, tasks.status, tasks.name FROM taskqueue.tasks
    WHERE tasks.queue_key = $1::bigint AND tasks.id >= named.id AND tasks.id <= named.id
    ORDER BY tasks.id
    LIMIT 1
) AS tasks;

-- name: LIST_RELATED
-- Lists the tasks that wait for the task $2, or did until they ended, the oldest first.
SELECT tasks.id, tasks.status, tasks.name
FROM (
    SELECT dependencies.task_key FROM taskqueue.dependencies
    WHERE dependencies.queue_key = $1::bigint AND dependencies.dependency = $2::text
    ORDER BY dependencies.queue_key, dependencies.dependency, dependencies.task_key
    LIMIT $3::bigint
) AS waiting
JOIN taskqueue.tasks ON tasks.task_key = waiting.task_key
ORDER BY waiting.task_key;

-- name: TAKE_SNAPSHOT
-- Names the snapshot of this transaction, and finds the queue in it.
SELECT pg_current_snapshot()::text, (SELECT queue_key FROM taskqueue.queues WHERE name = $1::text);

-- name: CHECK
-- Reads one row, to see that the database answers.
SELECT count(*) FROM (SELECT 1 FROM taskqueue.queues LIMIT 1) AS one;
