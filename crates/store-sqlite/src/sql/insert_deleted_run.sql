-- Records a run id of a deleted task, which stays used until ?1.
INSERT INTO deleted_runs (kept_until, run_id) VALUES (?1, ?2);
