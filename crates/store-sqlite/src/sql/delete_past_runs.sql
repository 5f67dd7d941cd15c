DELETE FROM past_runs WHERE task_key = ?1;
