-- The position ?2 lies outside of everything for the first page. The index is order and cursor in one.
SELECT
    tasks.task_key, tasks.id, tasks.status, tasks.name, tasks.priority, tasks.attempt, tasks.max_attempts, tasks.routes,
    tasks.last_route, tasks.created_at, tasks.updated_at, tasks.started_at, tasks.finished_at,
    -- The pending order, runs and sizes, which no list shows.
    NULL, NULL, NULL, NULL, NULL, NULL,
    definitions.args, definitions.metadata, outcomes.result,
    outcomes.error_type, outcomes.error_message, outcomes.error_traceback, outcomes.error_occurred_at,
    outcomes.error_attempt, outcomes.error_run_id
FROM tasks INDEXED BY tasks_by_id
JOIN definitions ON definitions.task_key = tasks.task_key
LEFT JOIN outcomes ON outcomes.task_key = tasks.task_key
WHERE tasks.queue_key = ?1 AND tasks.id > ?2
ORDER BY tasks.id ASC;
