-- Counts past runs of the tasks of existing queues, and observations. A transfer compares the counts of both databases; what
-- it derives from the tasks themselves comes from list_heads.
SELECT
    (SELECT count(*) FROM past_runs JOIN tasks ON tasks.task_key = past_runs.task_key
     WHERE tasks.queue_key IN (SELECT queue_key FROM queues)) AS past_runs,
    (SELECT count(*) FROM observations) AS observations;
