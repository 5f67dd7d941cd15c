-- Loads all past run ids at start.
SELECT run_id FROM past_runs;
