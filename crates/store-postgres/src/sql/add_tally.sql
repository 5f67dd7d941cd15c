-- Adds differences to the counts of tasks by routes and status, in the shard $5.
INSERT INTO taskqueue.tally AS kept (queue_key, routes, status, tasks, shard)
SELECT *, $5::smallint FROM unnest($1::bigint[], $2::text[], $3::text[], $4::bigint[])
ON CONFLICT (queue_key, digest, status, shard) DO UPDATE SET tasks = kept.tasks + excluded.tasks;
