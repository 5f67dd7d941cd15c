-- Counts what is derived from the tasks of existing queues: running tasks, pending entries (one per task and route), run
-- ids; and observations. A transfer compares the counts of both databases.
SELECT
    (SELECT count(*) FROM tasks WHERE status = 'running' AND queue_key IN (SELECT queue_key FROM queues)) AS running,
    (SELECT coalesce(sum(json_array_length(routes)), 0) FROM tasks
     WHERE status = 'pending' AND queue_key IN (SELECT queue_key FROM queues)) AS pending,
    (SELECT count(run_id) + count(finished_run_id) FROM tasks WHERE queue_key IN (SELECT queue_key FROM queues))
    + (SELECT count(*) FROM past_runs JOIN tasks ON tasks.task_key = past_runs.task_key
       WHERE tasks.queue_key IN (SELECT queue_key FROM queues)) AS runs,
    (SELECT count(*) FROM observations) AS observations;
