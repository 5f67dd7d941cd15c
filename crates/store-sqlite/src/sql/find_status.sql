-- Finds the state of a task by its key, if it belongs to the queue ?2.
SELECT status FROM tasks WHERE task_key = ?1 AND queue_key = ?2;
