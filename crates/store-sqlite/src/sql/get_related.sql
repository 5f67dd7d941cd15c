-- Reads what is shown of a task beside another one.
SELECT id, status, name FROM tasks WHERE queue_key = ?1 AND id = ?2;
