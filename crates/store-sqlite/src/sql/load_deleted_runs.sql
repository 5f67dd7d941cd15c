-- Loads the run ids of deleted tasks at start.
SELECT run_id FROM deleted_runs;
