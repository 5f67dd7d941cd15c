-- Reads a task by its queue and id. No row: no such queue; a row of nulls: no such task.
SELECT {task_columns}
FROM taskqueue.queues
LEFT JOIN taskqueue.tasks ON tasks.queue_key = queues.queue_key AND tasks.id = $2
LEFT JOIN taskqueue.definitions ON definitions.task_key = tasks.task_key
LEFT JOIN taskqueue.outcomes ON outcomes.task_key = tasks.task_key
WHERE queues.name = $1;
