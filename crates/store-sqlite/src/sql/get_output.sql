-- Reads what is kept of the output of a task, without its bytes, by the name of its queue and its id.
SELECT tasks.task_key, tasks.packed AS head, outputs.packed AS output
FROM tasks
LEFT JOIN outputs ON outputs.task_key = tasks.task_key
WHERE tasks.queue_key = (SELECT queues.queue_key FROM queues WHERE queues.name = ?1) AND tasks.id = ?2;
