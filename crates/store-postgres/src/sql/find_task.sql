SELECT task_key FROM taskqueue.tasks WHERE queue_key = $1 AND id = $2;
