-- Lists the tasks that wait for the task $2, or did until they ended, the oldest first.
SELECT tasks.id, tasks.status, tasks.name
FROM (
    SELECT dependencies.task_key FROM taskqueue.dependencies
    WHERE dependencies.queue_key = $1 AND dependencies.dependency = $2
    ORDER BY dependencies.queue_key, dependencies.dependency, dependencies.task_key
    LIMIT $3
) AS waiting
JOIN taskqueue.tasks ON tasks.task_key = waiting.task_key
ORDER BY waiting.task_key;
