-- Adds differences to the counts of tasks by routes and status, in these shards.
INSERT INTO taskqueue.tally AS kept (queue_key, routes, status, tasks, shard)
SELECT * FROM unnest($1::bigint[], $2::text[], $3::text[], $4::bigint[], $5::smallint[])
ON CONFLICT (queue_key, digest, status, shard) DO UPDATE SET tasks = kept.tasks + excluded.tasks;
