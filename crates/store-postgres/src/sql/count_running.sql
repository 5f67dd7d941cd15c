-- How many running tasks have a lease that ends in time, held by others or not.
SELECT count(*) AS tasks
FROM taskqueue.running
JOIN taskqueue.tasks ON tasks.task_key = running.task_key
WHERE tasks.lease_expires_at <= $1;
