-- Counts the running tasks whose lease ends by $1, including those that other transactions hold.
SELECT count(*) AS tasks
FROM taskqueue.running
JOIN taskqueue.tasks ON tasks.task_key = running.task_key
WHERE tasks.lease_expires_at <= $1;
