-- Counts the current observations of the queue $1, or of every queue if that is null, by route and status. Without $2 the time is
-- that of the service (table `clock`).
SELECT queue_key, route, status, count(*) AS workers
FROM taskqueue.observations
WHERE ($1::bigint IS NULL OR queue_key = $1) AND expires_at > coalesce($2, (
    SELECT greatest((extract(epoch FROM clock_timestamp()) * 1000000)::bigint + offset_micros, last_scan_at)
    FROM taskqueue.clock
    WHERE one = 1
))
GROUP BY queue_key, route, status;
