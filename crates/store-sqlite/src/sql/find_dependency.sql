-- Finds what is noted of a dependency of a task.
SELECT state FROM dependencies WHERE queue_key = ?1 AND dependency = ?2 AND task_key = ?3;
