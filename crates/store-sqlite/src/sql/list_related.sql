-- Lists the tasks that wait for the task ?2, or did until they ended, the oldest first.
SELECT tasks.id, tasks.status, tasks.name
FROM dependencies
CROSS JOIN tasks ON tasks.task_key = dependencies.task_key
WHERE dependencies.queue_key = ?1 AND dependencies.dependency = ?2
ORDER BY dependencies.task_key
LIMIT ?3;
