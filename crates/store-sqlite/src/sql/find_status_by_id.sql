-- Finds the state of a task by its queue and id.
SELECT status FROM tasks WHERE queue_key = ?1 AND id = ?2;
