-- Lists the tasks of a queue by creation, after the position (?2, ?3), without their JSON: for who passes over most of them.
SELECT {head_columns}
FROM tasks INDEXED BY tasks_by_creation
WHERE tasks.queue_key = ?1 AND (tasks.created_at, tasks.id) {after} (?2, ?3)
ORDER BY tasks.created_at {direction}, tasks.id {direction};
