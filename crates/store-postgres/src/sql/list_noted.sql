-- Lists what is noted of these dependencies of the task $2.
SELECT noted.queue_key, noted.dependency, noted.task_key, noted.state, true AS is_there
FROM unnest($3::text[]) AS named (id)
CROSS JOIN LATERAL (
    -- Looked up one by one: many tasks may wait for one, and no plan may read them all.
    SELECT dependencies.queue_key, dependencies.dependency, dependencies.task_key, dependencies.state
    FROM taskqueue.dependencies
    WHERE dependencies.queue_key = $1 AND dependencies.dependency = named.id AND dependencies.task_key = $2
    LIMIT 1
) AS noted;
