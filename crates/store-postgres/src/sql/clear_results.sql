-- Removes the results of tasks. An empty result needs no row.
UPDATE taskqueue.outcomes SET result = NULL WHERE task_key = ANY($1);
