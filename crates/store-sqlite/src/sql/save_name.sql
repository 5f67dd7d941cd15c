-- Saves the name of a task.
UPDATE tasks SET name = ?2 WHERE task_key = ?1;
