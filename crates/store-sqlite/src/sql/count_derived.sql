-- Running tasks, places in the order of claims, run ids and observations of every queue that exists.
SELECT
    (SELECT count(*) FROM tasks WHERE status = 'running' AND queue_key IN (SELECT queue_key FROM queues)),
    (SELECT coalesce(sum(json_array_length(routes)), 0) FROM tasks
     WHERE status = 'pending' AND queue_key IN (SELECT queue_key FROM queues)),
    (SELECT count(run_id) + count(finished_run_id) FROM tasks WHERE queue_key IN (SELECT queue_key FROM queues))
    + (SELECT count(*) FROM past_runs JOIN tasks ON tasks.task_key = past_runs.task_key
       WHERE tasks.queue_key IN (SELECT queue_key FROM queues)),
    (SELECT count(*) FROM observations);
