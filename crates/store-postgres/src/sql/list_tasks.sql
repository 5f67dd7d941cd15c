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
        WHERE tasks.queue_key = $1 AND true
        ORDER BY tasks.created_at DESC, tasks.id DESC
        LIMIT $2
    ) AS tasks
    LEFT JOIN LATERAL (
        SELECT * FROM taskqueue.definitions WHERE definitions.task_key = tasks.task_key LIMIT 1
    ) AS definitions ON true
    LEFT JOIN LATERAL (
        SELECT * FROM taskqueue.outcomes WHERE outcomes.task_key = tasks.task_key LIMIT 1
    ) AS outcomes ON true
) AS tasks
WHERE coalesce(tasks.bytes_before, 0) < $3
ORDER BY tasks.created_at DESC, tasks.id DESC;
