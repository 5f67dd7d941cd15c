-- Saves args and metadata of tasks.
UPDATE taskqueue.definitions SET
    args = saved.args, metadata = saved.metadata
FROM unnest(
    $1::bigint[], $2::text[], $3::text[]
) AS saved (
    task_key, args, metadata
)
WHERE definitions.task_key = saved.task_key;
