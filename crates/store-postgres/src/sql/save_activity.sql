-- Saves what the process $4 has counted, in place of what it saved before. Holds the queues against deletion. Leaves out those
-- that do not exist, and those that another transaction holds for itself: the rows say which were saved.
INSERT INTO taskqueue.activity (queue_key, unit_seconds, start_at, process, counted)
SELECT counted.queue_key, counted.unit_seconds, counted.start_at, $4, counted.bytes
FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $5::bytea[]) AS counted (queue_key, unit_seconds, start_at, bytes)
CROSS JOIN LATERAL (
    SELECT 1 FROM taskqueue.queues WHERE queues.queue_key = counted.queue_key FOR KEY SHARE SKIP LOCKED
) AS held
ON CONFLICT (queue_key, unit_seconds, start_at, process) DO UPDATE SET counted = excluded.counted
RETURNING queue_key;
