-- Every task of every queue that exists, whole, behind a key, in the order of the keys; with identity and queue. The
-- order of the joins is fixed (CROSS JOIN), so that each chunk is one walk over neighbouring rows.
SELECT
    tasks.task_key, tasks.id, tasks.status, tasks.name, tasks.priority, tasks.attempt, tasks.max_attempts, tasks.routes,
    tasks.last_route, tasks.created_at, tasks.updated_at, tasks.started_at, tasks.finished_at,
    tasks.pending_seq, tasks.run_id, tasks.lease_expires_at, tasks.finished_run_id, tasks.finished_run_end,
    tasks.definition_bytes,
    definitions.args, definitions.metadata, outcomes.result,
    outcomes.error_type, outcomes.error_message, outcomes.error_traceback, outcomes.error_occurred_at,
    outcomes.error_attempt, outcomes.error_run_id,
    definitions.identity, tasks.queue_key
FROM tasks NOT INDEXED
CROSS JOIN queues ON queues.queue_key = tasks.queue_key
CROSS JOIN definitions ON definitions.task_key = tasks.task_key
LEFT JOIN outcomes ON outcomes.task_key = tasks.task_key
WHERE tasks.task_key > ?1
ORDER BY tasks.task_key;
