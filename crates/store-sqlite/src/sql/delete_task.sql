DELETE FROM tasks WHERE task_key = ?1;
