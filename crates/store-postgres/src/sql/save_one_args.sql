UPDATE taskqueue.definitions SET args = $2 WHERE task_key = ANY($1);
