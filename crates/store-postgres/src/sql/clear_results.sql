-- An empty result needs no row of its own.
UPDATE taskqueue.outcomes SET result = NULL WHERE task_key = ANY($1);
