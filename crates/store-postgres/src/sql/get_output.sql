-- Reads what is kept of the output of a task by its queue and id, without the bytes, and its active run. No row: no such queue;
-- a row of nulls: no such task.
SELECT
    tasks.task_key, tasks.run_id AS active_run_id, outputs.run_id, outputs.attempt, outputs.parts, outputs.last_start
FROM taskqueue.queues
LEFT JOIN taskqueue.tasks ON tasks.queue_key = queues.queue_key AND tasks.id = $2
LEFT JOIN taskqueue.outputs ON outputs.task_key = tasks.task_key
WHERE queues.name = $1;
