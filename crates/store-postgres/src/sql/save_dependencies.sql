-- Notes what dependencies are to tasks that wait for them.
INSERT INTO taskqueue.dependencies (queue_key, dependency, task_key, state)
SELECT * FROM unnest($1::bigint[], $2::text[], $3::bigint[], $4::smallint[])
ON CONFLICT (queue_key, dependency, task_key) DO UPDATE SET state = excluded.state;
