-- Walks from the tasks $2 to those that wait for them, and, with $4, on from those that are cancelled with them: $3 pairs at most, the
-- nearest first. Nothing is locked here: what was found is locked next (lock_found), and listed after that.
WITH RECURSIVE walk AS (
    SELECT named.id COLLATE "C" AS dependency, waiting.task_key, waiting.id, waiting.goes_on
    FROM unnest($2::text[]) AS named (id)
    CROSS JOIN LATERAL (
        -- As in list_named_dependents.
        SELECT pair.task_key, task.id, $4 AND coalesce(task.goes_on, false) AS goes_on
        FROM (
            SELECT dependencies.task_key
            FROM taskqueue.dependencies
            WHERE dependencies.queue_key = $1 AND dependencies.dependency >= named.id
                AND dependencies.dependency <= named.id
            ORDER BY dependencies.queue_key, dependencies.dependency, dependencies.task_key
            LIMIT $3
        ) AS pair
        LEFT JOIN LATERAL (
            SELECT
                tasks.id,
                tasks.status = 'pending'
                    AND strpos(tasks.scheduling, '"on_dependency_failure":"cancel"') > 0 AS goes_on
            FROM taskqueue.tasks WHERE tasks.task_key = pair.task_key ORDER BY tasks.task_key LIMIT 1
        ) AS task ON true
    ) AS waiting
    UNION
    SELECT walk.id, waiting.task_key, waiting.id, waiting.goes_on
    FROM walk
    CROSS JOIN LATERAL (
        SELECT pair.task_key, task.id, coalesce(task.goes_on, false) AS goes_on
        FROM (
            SELECT dependencies.task_key
            FROM taskqueue.dependencies
            WHERE dependencies.queue_key = $1 AND dependencies.dependency >= walk.id
                AND dependencies.dependency <= walk.id
            ORDER BY dependencies.queue_key, dependencies.dependency, dependencies.task_key
            LIMIT $3
        ) AS pair
        LEFT JOIN LATERAL (
            SELECT
                tasks.id,
                tasks.status = 'pending'
                    AND strpos(tasks.scheduling, '"on_dependency_failure":"cancel"') > 0 AS goes_on
            FROM taskqueue.tasks WHERE tasks.task_key = pair.task_key ORDER BY tasks.task_key LIMIT 1
        ) AS task ON true
    ) AS waiting
    WHERE walk.goes_on
)
SELECT walk.dependency, walk.task_key, walk.id, walk.goes_on FROM walk LIMIT $3;
