-- Loads what is kept of the output of a task, without its bytes.
SELECT packed FROM outputs WHERE task_key = ?1;
