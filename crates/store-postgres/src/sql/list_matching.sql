-- Lists the whole tasks of a queue that are not running. A condition takes the place of `true` (`dialect/order.rs`).
SELECT {task_columns}
FROM taskqueue.tasks
JOIN taskqueue.definitions ON definitions.task_key = tasks.task_key
LEFT JOIN taskqueue.outcomes ON outcomes.task_key = tasks.task_key
WHERE tasks.queue_key = $1 AND tasks.status <> 'running' AND true;
