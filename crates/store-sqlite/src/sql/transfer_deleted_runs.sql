-- Lists run ids of deleted tasks after one of them, by time and id, for a transfer. Also those of tasks that are still
-- being purged.
SELECT run_id, kept_until
FROM (
    SELECT kept_until, run_id FROM deleted_runs WHERE (kept_until, run_id) > (?1, ?2)
    UNION ALL
    SELECT purges.kept_until, past_runs.run_id
    FROM purges
    JOIN tasks ON tasks.queue_key = purges.queue_key
    JOIN past_runs ON past_runs.task_key = tasks.task_key
    UNION ALL
    SELECT purges.kept_until, {finished_run_id} AS finished_run_id
    FROM purges
    JOIN tasks ON tasks.queue_key = purges.queue_key
    WHERE finished_run_id IS NOT NULL
) AS deleted
WHERE (kept_until, run_id) > (?1, ?2)
ORDER BY kept_until, run_id
LIMIT ?3;
