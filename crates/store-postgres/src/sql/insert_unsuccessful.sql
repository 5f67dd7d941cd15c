-- Adds tasks to those that ended without success.
INSERT INTO taskqueue.unsuccessful (task_key, queue_key, status)
SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::text[]);
