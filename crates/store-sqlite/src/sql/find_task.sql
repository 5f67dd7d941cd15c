-- Finds the key of a task by its queue and id.
SELECT task_key FROM tasks WHERE queue_key = ?1 AND id = ?2;
