UPDATE taskqueue.definitions SET metadata = $2 WHERE task_key = ANY($1);
