-- An empty result needs no row of its own.
UPDATE outcomes SET result = NULL WHERE task_key = ?1;
