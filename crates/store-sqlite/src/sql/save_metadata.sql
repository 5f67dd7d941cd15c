-- Saves the metadata of a task.
UPDATE definitions SET metadata = ?2 WHERE task_key = ?1;
