-- Lists running tasks that are counted although their queue limits no claims, or not counted as they should, for a check.
SELECT 'a running task is not counted as its queue needs it' AS what, tasks.task_key
FROM taskqueue.running
JOIN taskqueue.tasks ON tasks.task_key = running.task_key
LEFT JOIN taskqueue.claim_turns ON claim_turns.queue_key = tasks.queue_key
WHERE running.queue_key IS DISTINCT FROM claim_turns.queue_key
    OR (claim_turns.queue_key IS NOT NULL AND running.route IS DISTINCT FROM tasks.last_route);
