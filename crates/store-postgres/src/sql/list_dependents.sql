-- Lists the tasks that wait for one, with keys above $3, $4 at most, by key, what is noted of that, and whether they exist.
SELECT waiting.queue_key, waiting.dependency, waiting.task_key, waiting.state, seen.task_key IS NOT NULL AS is_there
FROM (
    SELECT dependencies.queue_key, dependencies.dependency, dependencies.task_key, dependencies.state
    FROM taskqueue.dependencies
    WHERE dependencies.queue_key = $1 AND dependencies.dependency = $2 AND dependencies.task_key > $3
    ORDER BY dependencies.queue_key, dependencies.dependency, dependencies.task_key
    LIMIT $4
) AS waiting
LEFT JOIN LATERAL (
    SELECT tasks.task_key FROM taskqueue.tasks WHERE tasks.task_key = waiting.task_key ORDER BY tasks.task_key LIMIT 1
) AS seen ON true
ORDER BY waiting.task_key;
