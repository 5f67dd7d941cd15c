-- Deletes all output of a task.
DELETE FROM output_pieces WHERE task_key = ?1;
