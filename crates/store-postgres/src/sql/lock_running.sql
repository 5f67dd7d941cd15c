-- Locks the running tasks whose lease ends by $1, except those that other transactions hold.
SELECT {head_columns}
FROM taskqueue.running
JOIN taskqueue.tasks ON tasks.task_key = running.task_key
WHERE tasks.lease_expires_at <= $1
ORDER BY tasks.task_key
FOR UPDATE OF tasks SKIP LOCKED;
