-- Saves the last error of a task.
INSERT INTO outcomes (
    task_key, error_type, error_message, error_traceback, error_occurred_at, error_attempt, error_run_id
) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
ON CONFLICT (task_key) DO UPDATE SET
    error_type = excluded.error_type, error_message = excluded.error_message,
    error_traceback = excluded.error_traceback, error_occurred_at = excluded.error_occurred_at,
    error_attempt = excluded.error_attempt, error_run_id = excluded.error_run_id;
