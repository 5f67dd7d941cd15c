-- The model of the columns of a whole task. No row: no such queue; a row of nulls: no such task.
SELECT
    tasks.task_key, tasks.queue_key, tasks.id, tasks.status, tasks.name, tasks.priority, tasks.attempt,
    tasks.max_attempts, tasks.routes, tasks.last_route, tasks.created_at, tasks.updated_at, tasks.started_at,
    tasks.finished_at, tasks.pending_seq, tasks.run_id, tasks.lease_expires_at, tasks.finished_run_id,
    tasks.finished_run_end, tasks.definition_bytes,
    definitions.args, definitions.metadata, outcomes.result, outcomes.error, outcomes.error_occurred_at,
    outcomes.error_attempt, outcomes.error_run_id, definitions.identity
FROM taskqueue.queues
LEFT JOIN taskqueue.tasks ON tasks.queue_key = queues.queue_key AND tasks.id = $2
LEFT JOIN taskqueue.definitions ON definitions.task_key = tasks.task_key
LEFT JOIN taskqueue.outcomes ON outcomes.task_key = tasks.task_key
WHERE queues.name = $1;
