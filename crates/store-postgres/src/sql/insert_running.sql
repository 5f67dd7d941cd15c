-- Adds tasks to the running ones.
INSERT INTO taskqueue.running (task_key, queue_key, route) SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::text[]);
