-- Of the tasks that wait for one, with keys above $3, locks the first $4, except those that other transactions hold, and loads them
-- without their JSON. What is noted of them is read by the next statement (list_dependents).
SELECT {head_columns}
FROM (
    SELECT dependencies.task_key
    FROM taskqueue.dependencies
    WHERE dependencies.queue_key = $1 AND dependencies.dependency = $2 AND dependencies.task_key > $3
    ORDER BY dependencies.queue_key, dependencies.dependency, dependencies.task_key
    LIMIT $4
) AS waiting
CROSS JOIN LATERAL (
    SELECT tasks.* FROM taskqueue.tasks WHERE tasks.task_key = waiting.task_key FOR UPDATE SKIP LOCKED
) AS tasks;
