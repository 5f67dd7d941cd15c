-- The heads of these tasks, for whoever has their queue alone.
SELECT
    tasks.task_key, tasks.queue_key, tasks.id, tasks.status, tasks.name, tasks.priority, tasks.attempt, tasks.max_attempts,
    tasks.routes, tasks.last_route, tasks.created_at, tasks.updated_at, tasks.started_at, tasks.finished_at,
    tasks.pending_seq, tasks.run_id, tasks.lease_expires_at, tasks.finished_run_id, tasks.finished_run_end,
    tasks.definition_bytes
FROM taskqueue.tasks
WHERE tasks.task_key = ANY($1);
