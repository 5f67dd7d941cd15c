-- Locks the first $2 running tasks whose lease or time ends by $1, except those that other transactions hold.
SELECT {head_columns}
FROM taskqueue.running
CROSS JOIN LATERAL (
    -- Looked up one by one: where nothing was running a moment ago, the planner would read all tasks for each of them.
    SELECT tasks.* FROM taskqueue.tasks
    WHERE tasks.task_key = running.task_key AND least(tasks.lease_expires_at, tasks.times_out_at) <= $1
    FOR UPDATE SKIP LOCKED
) AS tasks
ORDER BY running.task_key
LIMIT $2;
