UPDATE tasks SET
    name = ?2, priority = ?3, max_attempts = ?4, routes = ?5, definition_bytes = ?6, updated_at = ?7
WHERE task_key = ?1;
