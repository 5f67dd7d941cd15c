-- Notes tasks that have ended, and that their queue keeps for a limited time.
INSERT INTO taskqueue.ended (queue_key, status, ended_at, task_key)
SELECT * FROM unnest($1::bigint[], $2::text[], $3::bigint[], $4::bigint[])
ON CONFLICT DO NOTHING;
