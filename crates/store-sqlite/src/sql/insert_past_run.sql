-- Records a run of a task that is no longer its last finished one.
INSERT INTO past_runs (task_key, run_id) VALUES (?1, ?2);
