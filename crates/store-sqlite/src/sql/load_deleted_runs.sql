SELECT run_id FROM deleted_runs;
