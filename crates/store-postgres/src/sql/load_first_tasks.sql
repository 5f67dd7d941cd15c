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
    FROM unnest($1) WITH ORDINALITY AS wanted (task_key, number)
    JOIN taskqueue.tasks ON tasks.task_key = wanted.task_key
    LEFT JOIN taskqueue.outcomes ON outcomes.task_key = tasks.task_key
) AS tasks
JOIN taskqueue.definitions ON definitions.task_key = tasks.task_key
LEFT JOIN taskqueue.outcomes ON outcomes.task_key = tasks.task_key
WHERE coalesce(tasks.bytes_before, 0) < $2;
