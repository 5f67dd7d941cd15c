-- Counts the running tasks whose lease or time ends by $1, including those that other transactions hold.
SELECT count(*) AS tasks
FROM taskqueue.running
CROSS JOIN LATERAL (
    -- As in lock_running.
    SELECT tasks.lease_expires_at, tasks.times_out_at FROM taskqueue.tasks WHERE tasks.task_key = running.task_key LIMIT 1
) AS tasks
WHERE least(tasks.lease_expires_at, tasks.times_out_at) <= $1;
