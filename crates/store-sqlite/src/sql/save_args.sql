-- Saves the args of a task.
UPDATE definitions SET args = ?2 WHERE task_key = ?1;
