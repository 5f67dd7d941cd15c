-- Gives tasks the same result: a bulk update sends the value once.
INSERT INTO taskqueue.outcomes (task_key, result) SELECT task_key, $2 FROM unnest($1::bigint[]) AS tasks (task_key)
ON CONFLICT (task_key) DO UPDATE SET result = excluded.result;
