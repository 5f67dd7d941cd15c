-- Lists some tasks of a deleted queue.
SELECT task_key FROM tasks WHERE queue_key = ?1 LIMIT ?2;
