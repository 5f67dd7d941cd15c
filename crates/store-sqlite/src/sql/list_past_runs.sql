-- Lists the past run ids of a task.
SELECT run_id FROM past_runs WHERE task_key = ?1;
