-- Removes the last errors of tasks.
UPDATE taskqueue.outcomes SET error = NULL, error_occurred_at = NULL, error_attempt = NULL, error_run_id = NULL
WHERE task_key = ANY($1);
