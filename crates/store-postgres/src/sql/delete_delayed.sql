-- Removes tasks from the delayed ones.
DELETE FROM taskqueue.delayed
USING unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS gone (queue_key, not_before, task_key)
WHERE delayed.queue_key = gone.queue_key AND delayed.not_before = gone.not_before AND delayed.task_key = gone.task_key;
