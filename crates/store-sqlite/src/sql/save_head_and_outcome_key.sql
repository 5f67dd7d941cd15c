-- Like save_head, when the task has got an outcome or lost it.
UPDATE tasks SET status = ?2, packed = ?3, outcome_key = ?4 WHERE task_key = ?1;
