-- Saves the results of tasks.
INSERT INTO taskqueue.outcomes (task_key, result) SELECT * FROM unnest($1::bigint[], $2::text[])
ON CONFLICT (task_key) DO UPDATE SET result = excluded.result;
