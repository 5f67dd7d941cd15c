-- Deletes the past runs of a deleted task. Its run ids are in deleted_runs by then.
DELETE FROM past_runs WHERE task_key = ?1;
