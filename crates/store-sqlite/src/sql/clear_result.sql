-- Removes the result of a task. An empty result needs no row.
UPDATE outcomes SET result = NULL WHERE task_key = ?1;
