-- Saves who runs a task, as its claim said.
INSERT INTO outcomes (task_key, last_run_attempt, last_run_worker) VALUES (?1, ?2, ?3)
ON CONFLICT (task_key) DO UPDATE SET
    last_run_attempt = excluded.last_run_attempt, last_run_worker = excluded.last_run_worker;
