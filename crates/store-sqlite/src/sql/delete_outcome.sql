-- Deletes the outcome of a deleted task.
DELETE FROM outcomes WHERE task_key = ?1;
