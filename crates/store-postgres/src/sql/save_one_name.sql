UPDATE taskqueue.tasks SET name = $2 WHERE task_key = ANY($1);
