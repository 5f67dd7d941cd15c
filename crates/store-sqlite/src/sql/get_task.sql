-- Reads a task by the name of its queue and its id.
SELECT {task_columns}
FROM tasks
JOIN definitions ON definitions.task_key = tasks.task_key
LEFT JOIN outcomes ON outcomes.task_key = tasks.outcome_key
WHERE tasks.queue_key = (SELECT queues.queue_key FROM queues WHERE queues.name = ?1) AND tasks.id = ?2;
