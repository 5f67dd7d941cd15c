-- Removes the last error of a task.
UPDATE outcomes SET
    error_type = NULL, error_message = NULL, error_traceback = NULL, error_occurred_at = NULL, error_attempt = NULL,
    error_run_id = NULL
WHERE task_key = ?1;
