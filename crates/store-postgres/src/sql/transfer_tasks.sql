-- Lists whole tasks of the queues $2 with all their run ids after the key $1, by key, for a transfer. With their output, which
-- is loaded later, they have at most $3 bytes and one task. Like list_tasks.sql it finds the narrow rows first. The limit (CHUNK_TASKS) is a number here, so that
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
        WHERE tasks.task_key > $1 AND tasks.queue_key = ANY($2)
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
WHERE coalesce(tasks.bytes_before, 0) < $3
ORDER BY tasks.task_key;
