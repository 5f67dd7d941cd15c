-- Notes of the running tasks of a queue which route they were claimed for: from now on they are counted. The caller holds the queue
-- for itself.
UPDATE taskqueue.running SET queue_key = tasks.queue_key, route = tasks.last_route
FROM taskqueue.tasks
WHERE tasks.task_key = running.task_key AND tasks.queue_key = $1;
