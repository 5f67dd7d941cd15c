UPDATE tasks SET name = ?2 WHERE task_key = ?1;
