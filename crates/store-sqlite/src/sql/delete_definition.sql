DELETE FROM definitions WHERE task_key = ?1;
