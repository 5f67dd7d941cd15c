-- Adds tasks to those that ended without success. A server that does not know the table may have left a row when it requeued
-- the task.
INSERT INTO taskqueue.unsuccessful (task_key, queue_key, status)
SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::text[])
ON CONFLICT (task_key) DO UPDATE SET queue_key = excluded.queue_key, status = excluded.status;
