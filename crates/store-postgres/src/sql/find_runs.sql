-- Finds what run ids are used for: the task that had them, if it exists, and whether they own it now.
SELECT runs.run_id, tasks.task_key, tasks.queue_key, tasks.run_id IS NOT DISTINCT FROM runs.run_id AS is_active
FROM taskqueue.runs
LEFT JOIN taskqueue.tasks ON tasks.task_key = runs.task_key
WHERE runs.run_id = ANY($1);
