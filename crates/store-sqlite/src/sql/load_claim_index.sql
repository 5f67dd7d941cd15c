-- What the writer keeps in memory, in one pass over the narrow table at start.
SELECT task_key, queue_key, status, priority, pending_seq, routes, updated_at, finished_run_id
FROM tasks;
