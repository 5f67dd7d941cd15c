-- Lists the tasks of a queue by creation, after the position (?2, ?3). For the first page the position lies before all tasks.
-- One index gives the order and finds the position.
SELECT {task_columns}
FROM tasks INDEXED BY tasks_by_creation
JOIN definitions ON definitions.task_key = tasks.task_key
LEFT JOIN outcomes ON outcomes.task_key = tasks.outcome_key
WHERE tasks.queue_key = ?1 AND (tasks.created_at, tasks.id) {after} (?2, ?3)
ORDER BY tasks.created_at {direction}, tasks.id {direction};
