-- Saves what an update changes in the narrow row of a task, except its name.
UPDATE tasks SET
    priority = ?2, max_attempts = ?3, routes = ?4, definition_bytes = ?5, updated_at = ?6
WHERE task_key = ?1;
