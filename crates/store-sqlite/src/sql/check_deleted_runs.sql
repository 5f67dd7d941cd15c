-- Lists the run ids of deleted tasks, for a check.
SELECT kept_until, run_id FROM deleted_runs;
