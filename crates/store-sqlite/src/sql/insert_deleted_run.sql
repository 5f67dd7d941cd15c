INSERT INTO deleted_runs (kept_until, run_id) VALUES (?1, ?2);
