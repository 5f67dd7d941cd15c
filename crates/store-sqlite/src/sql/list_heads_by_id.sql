-- Lists the tasks of a queue by id, after the position ?2, without their JSON: for who passes over most of them.
SELECT {head_columns}
FROM tasks INDEXED BY tasks_by_id
WHERE tasks.queue_key = ?1 AND tasks.id {after} ?2
ORDER BY tasks.id {direction};
