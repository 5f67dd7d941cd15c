-- Lists run ids of deleted tasks after one of them, by time and id, for a transfer. Also those of tasks that are still
-- being purged.
SELECT run_id, kept_until
FROM (
    SELECT kept_until, run_id FROM taskqueue.runs WHERE kept_until IS NOT NULL AND (kept_until, run_id) > ($1, $2)
    UNION ALL
    SELECT purges.kept_until, runs.run_id
    FROM taskqueue.purges
    JOIN taskqueue.tasks ON tasks.queue_key = purges.queue_key
    JOIN taskqueue.runs ON runs.task_key = tasks.task_key
) AS deleted
WHERE (kept_until, run_id) > ($1, $2)
ORDER BY kept_until, run_id
LIMIT $3;
