-- All tasks of a queue in table order, which is also the order of the joined tables. Looks at the tasks of all queues.
SELECT
    tasks.task_key, tasks.id, tasks.status, tasks.name, tasks.priority, tasks.attempt, tasks.max_attempts, tasks.routes,
    tasks.last_route, tasks.created_at, tasks.updated_at, tasks.started_at, tasks.finished_at
FROM tasks NOT INDEXED
WHERE tasks.queue_key = ?1;
