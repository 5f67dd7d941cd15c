-- Lists the tasks of a queue by id, after the position ?2. For the first page the position lies before all tasks.
-- One index gives the order and finds the position.
SELECT {listed_columns}
FROM tasks INDEXED BY tasks_by_id
JOIN definitions ON definitions.task_key = tasks.task_key
LEFT JOIN outcomes ON outcomes.task_key = tasks.outcome_key
WHERE tasks.queue_key = ?1 AND tasks.id {after} ?2
ORDER BY tasks.id {direction};
