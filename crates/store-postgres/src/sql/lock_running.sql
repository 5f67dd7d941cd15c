-- Running tasks whose lease ends in time, except those that others hold.
SELECT
    tasks.task_key, tasks.queue_key, tasks.id, tasks.status, tasks.name, tasks.priority, tasks.attempt, tasks.max_attempts,
    tasks.routes, tasks.last_route, tasks.created_at, tasks.updated_at, tasks.started_at, tasks.finished_at,
    tasks.pending_seq, tasks.run_id, tasks.lease_expires_at, tasks.finished_run_id, tasks.finished_run_end,
    tasks.definition_bytes
FROM taskqueue.running
JOIN taskqueue.tasks ON tasks.task_key = running.task_key
WHERE tasks.lease_expires_at <= $1
ORDER BY tasks.task_key
FOR UPDATE OF tasks SKIP LOCKED;
