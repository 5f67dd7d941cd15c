-- Loads the past run ids of the tasks with these keys, task by task.
SELECT task_key, run_id FROM past_runs WHERE task_key BETWEEN ?1 AND ?2 ORDER BY task_key;
