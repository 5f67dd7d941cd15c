-- Loads args and metadata of a task.
SELECT documents FROM definitions WHERE task_key = ?1;
