-- Deletes the past runs of a deleted task. Its run ids go to deleted_runs.
DELETE FROM past_runs WHERE task_key = ?1;
