-- Saves what updates change in the narrow rows of tasks, except their names.
UPDATE taskqueue.tasks SET
    priority = saved.priority, max_attempts = saved.max_attempts, routes = saved.routes,
    definition_bytes = saved.definition_bytes, updated_at = saved.updated_at, scheduling = saved.scheduling
FROM unnest(
    $1::bigint[], $2::bigint[], $3::bigint[], $4::text[], $5::bigint[], $6::bigint[], $7::text[]
) AS saved (
    task_key, priority, max_attempts, routes, definition_bytes, updated_at, scheduling
)
WHERE tasks.task_key = saved.task_key;
