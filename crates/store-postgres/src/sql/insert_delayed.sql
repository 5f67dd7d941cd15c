-- Adds pending tasks that are not claimable before a time.
INSERT INTO taskqueue.delayed (queue_key, not_before, task_key)
SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[])
ON CONFLICT DO NOTHING;
