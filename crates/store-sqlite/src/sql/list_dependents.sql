-- Lists tasks that wait for a task of a queue, with what is noted of it for each, behind the key ?3.
SELECT task_key, state FROM dependencies
WHERE queue_key = ?1 AND dependency = ?2 AND task_key > ?3 ORDER BY task_key LIMIT ?4;
