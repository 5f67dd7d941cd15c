-- Removes how far earlier runs were: their tasks were claimed again.
UPDATE taskqueue.outcomes SET progress = NULL, progress_updated_at = NULL, progress_attempt = NULL
WHERE task_key = ANY($1);
