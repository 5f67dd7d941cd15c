UPDATE taskqueue.tasks SET
    name = saved.name, priority = saved.priority, max_attempts = saved.max_attempts, routes = saved.routes,
    definition_bytes = saved.definition_bytes, updated_at = saved.updated_at
FROM unnest(
    $1::bigint[], $2::text[], $3::bigint[], $4::bigint[], $5::text[], $6::bigint[], $7::bigint[]
) AS saved (
    task_key, name, priority, max_attempts, routes, definition_bytes, updated_at
)
WHERE tasks.task_key = saved.task_key;
