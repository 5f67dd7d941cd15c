DELETE FROM outcomes WHERE task_key = ?1;
