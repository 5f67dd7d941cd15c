-- Loads args and metadata of a task.
SELECT args, metadata FROM definitions WHERE task_key = ?1;
