-- Lists the tasks of a queue by creation, beyond the time ?2. For the first page the time lies before all tasks. One index gives
-- the order and finds the beginning, and no row is compared with it.
SELECT {listed_columns}
FROM tasks INDEXED BY tasks_by_creation
JOIN definitions ON definitions.task_key = tasks.task_key
LEFT JOIN outcomes ON outcomes.task_key = tasks.outcome_key
WHERE tasks.queue_key = ?1 AND tasks.created_at {after} ?2
ORDER BY tasks.created_at {direction}, tasks.id {direction};
