-- Lists which tasks wait for the tasks $2, $3 at most, what is noted of that, and whether they exist.
SELECT waiting.queue_key, waiting.dependency, waiting.task_key, waiting.state, seen.task_key IS NOT NULL AS is_there
FROM unnest($2::text[]) AS named (id)
CROSS JOIN LATERAL (
    -- As in list_named_dependents.
    SELECT dependencies.queue_key, dependencies.dependency, dependencies.task_key, dependencies.state
    FROM taskqueue.dependencies
    WHERE dependencies.queue_key = $1 AND dependencies.dependency >= named.id
        AND dependencies.dependency <= named.id
    ORDER BY dependencies.queue_key, dependencies.dependency, dependencies.task_key
    LIMIT $3
) AS waiting
LEFT JOIN LATERAL (
    SELECT tasks.task_key FROM taskqueue.tasks WHERE tasks.task_key = waiting.task_key ORDER BY tasks.task_key LIMIT 1
) AS seen ON true
LIMIT $3;
