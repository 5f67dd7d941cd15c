SELECT
    tasks.task_key, tasks.id, tasks.status, tasks.name, tasks.priority, tasks.attempt, tasks.max_attempts, tasks.routes,
    tasks.last_route, tasks.created_at, tasks.updated_at, tasks.started_at, tasks.finished_at,
    tasks.pending_seq, tasks.run_id, tasks.lease_expires_at, tasks.finished_run_id, tasks.finished_run_end,
    tasks.definition_bytes,
    definitions.args, definitions.metadata, outcomes.result,
    outcomes.error_type, outcomes.error_message, outcomes.error_traceback, outcomes.error_occurred_at,
    outcomes.error_attempt, outcomes.error_run_id
FROM tasks
JOIN definitions ON definitions.task_key = tasks.task_key
LEFT JOIN outcomes ON outcomes.task_key = tasks.task_key
WHERE tasks.task_key = ?1 AND tasks.queue_key = ?2;
