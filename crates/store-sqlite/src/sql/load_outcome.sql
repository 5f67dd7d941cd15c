-- Loads what came out of a task.
SELECT outcome FROM outcomes WHERE task_key = ?1;
