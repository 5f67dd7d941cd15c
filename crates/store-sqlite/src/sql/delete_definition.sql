-- Deletes the definition of a deleted task.
DELETE FROM definitions WHERE task_key = ?1;
