-- Like visit_tasks, with the JSON, for filters that read it. In table order, which is also the order of the joined tables, if
-- the table is scanned.
SELECT {task_columns}
FROM tasks {access}
JOIN definitions ON definitions.task_key = tasks.task_key
LEFT JOIN outcomes ON outcomes.task_key = tasks.outcome_key
WHERE tasks.queue_key = ?1{which};
