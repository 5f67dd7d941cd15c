SELECT run_id FROM past_runs;
