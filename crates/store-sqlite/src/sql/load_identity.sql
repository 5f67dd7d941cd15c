-- Loads the identity that a task was created with.
SELECT identity FROM definitions WHERE task_key = ?1;
