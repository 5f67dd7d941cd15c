-- Removes who ran a task: its latest claim did not say it.
UPDATE outcomes SET last_run_attempt = NULL, last_run_worker = NULL WHERE task_key = ?1;
