-- All tasks of a queue by its index: twice the cost per task of scan_tasks, and nothing for the tasks of other queues.
SELECT
    tasks.task_key, tasks.id, tasks.status, tasks.name, tasks.priority, tasks.attempt, tasks.max_attempts, tasks.routes,
    tasks.last_route, tasks.created_at, tasks.updated_at, tasks.started_at, tasks.finished_at
FROM tasks INDEXED BY tasks_by_creation
WHERE tasks.queue_key = ?1;
