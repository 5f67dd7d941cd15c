INSERT INTO past_runs (task_key, run_id) VALUES (?1, ?2);
