-- Loads what is kept of the output of tasks, by key, without the bytes.
SELECT task_key, run_id, attempt, parts, last_start
FROM taskqueue.outputs
WHERE task_key = ANY($1);
