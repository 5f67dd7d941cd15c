-- Lists ended tasks that their queue keeps for a limited time, and that would never be found, for a check.
SELECT 'a task has ended, and would never be deleted as the settings say' AS what, tasks.task_key
FROM taskqueue.tasks
JOIN taskqueue.retention ON retention.queue_key = tasks.queue_key AND retention.status = tasks.status
WHERE NOT EXISTS (SELECT 1 FROM taskqueue.ended_readings WHERE ended_readings.queue_key = tasks.queue_key)
    AND NOT EXISTS (
        SELECT 1 FROM taskqueue.ended
        WHERE ended.queue_key = tasks.queue_key AND ended.status = tasks.status
            AND ended.ended_at = coalesce(tasks.finished_at, tasks.updated_at) AND ended.task_key = tasks.task_key
    );
