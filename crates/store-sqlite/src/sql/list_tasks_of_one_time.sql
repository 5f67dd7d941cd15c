-- Lists the tasks of a queue that were created at the time ?2, beyond the id ?3: what is left of the time at which the page before
-- ended.
SELECT {listed_columns}
FROM tasks INDEXED BY tasks_by_creation
JOIN definitions ON definitions.task_key = tasks.task_key
LEFT JOIN outcomes ON outcomes.task_key = tasks.outcome_key
WHERE tasks.queue_key = ?1 AND tasks.created_at = ?2 AND tasks.id {after} ?3
ORDER BY tasks.id {direction};
