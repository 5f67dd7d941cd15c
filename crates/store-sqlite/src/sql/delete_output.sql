-- Deletes what is kept of the output of a deleted task.
DELETE FROM outputs WHERE task_key = ?1;
