-- Loads the past run ids of the tasks with these keys.
SELECT run_id FROM past_runs WHERE task_key BETWEEN ?1 AND ?2;
