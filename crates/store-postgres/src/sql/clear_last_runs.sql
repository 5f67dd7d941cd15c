-- Removes who ran tasks: their latest claims did not say it.
UPDATE taskqueue.outcomes SET last_run_attempt = NULL, last_run_worker = NULL WHERE task_key = ANY($1);
