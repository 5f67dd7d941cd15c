-- The tasks of a queue in no order, with what a filter reads of their JSON: definitions if $2, outcomes if $3. What is
-- not wanted is a constant null, and its join is removed by the planner.
SELECT
    tasks.task_key, tasks.queue_key, tasks.id, tasks.status, tasks.name, tasks.priority, tasks.attempt,
    tasks.max_attempts, tasks.routes, tasks.last_route, tasks.created_at, tasks.updated_at, tasks.started_at,
    tasks.finished_at, tasks.pending_seq, tasks.run_id, tasks.lease_expires_at, tasks.finished_run_id,
    tasks.finished_run_end, tasks.definition_bytes,
    CASE WHEN $2 THEN definitions.args END, CASE WHEN $2 THEN definitions.metadata END,
    CASE WHEN $3 THEN outcomes.result END, CASE WHEN $3 THEN outcomes.error END,
    CASE WHEN $3 THEN outcomes.error_occurred_at END, CASE WHEN $3 THEN outcomes.error_attempt END,
    CASE WHEN $3 THEN outcomes.error_run_id END
FROM taskqueue.tasks
LEFT JOIN taskqueue.definitions ON definitions.task_key = tasks.task_key
LEFT JOIN taskqueue.outcomes ON outcomes.task_key = tasks.task_key
WHERE tasks.queue_key = $1 AND true;
