-- Adds tasks to those that ended without success. A row that should not be there stops nobody: the list makes reads quick, and what
-- they give does not depend on it.
INSERT INTO taskqueue.unsuccessful (task_key, queue_key, status)
SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::text[])
ON CONFLICT (task_key) DO UPDATE SET queue_key = excluded.queue_key, status = excluded.status;
