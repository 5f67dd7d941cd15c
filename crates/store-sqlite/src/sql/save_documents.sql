-- Saves args and metadata of a task.
UPDATE definitions SET documents = ?2 WHERE task_key = ?1;
