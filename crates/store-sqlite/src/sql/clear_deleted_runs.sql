DELETE FROM deleted_runs;
