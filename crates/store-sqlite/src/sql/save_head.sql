-- Saves what an action or an update changes in the narrow row of a task, except its name.
UPDATE tasks SET status = ?2, packed = ?3 WHERE task_key = ?1;
