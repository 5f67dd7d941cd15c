-- Finds a task by its queue and id, without its JSON.
SELECT {head_columns}
FROM tasks
WHERE tasks.queue_key = ?1 AND tasks.id = ?2;
