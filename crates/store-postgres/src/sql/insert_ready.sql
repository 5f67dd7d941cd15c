-- Adds pending tasks to the pending order, one row for each route.
INSERT INTO taskqueue.ready (queue_key, route, priority, pending_seq, task_key)
SELECT * FROM unnest($1::bigint[], $2::text[], $3::bigint[], $4::bigint[], $5::bigint[]);
