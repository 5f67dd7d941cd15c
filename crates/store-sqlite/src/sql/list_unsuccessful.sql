-- Lists the tasks of a queue with the state ?2, failed or cancelled, by creation, after the position (?3, ?4). For the first page
-- the position lies before all tasks. One index has only these tasks, gives the order and finds the position.
SELECT {task_columns}
FROM tasks INDEXED BY unsuccessful_tasks
JOIN definitions ON definitions.task_key = tasks.task_key
LEFT JOIN outcomes ON outcomes.task_key = tasks.outcome_key
WHERE tasks.queue_key = ?1 AND tasks.status = ?2 AND tasks.status IN ('failed', 'cancelled')
    AND (tasks.created_at, tasks.id) {after} (?3, ?4)
ORDER BY tasks.created_at {direction}, tasks.id {direction};
