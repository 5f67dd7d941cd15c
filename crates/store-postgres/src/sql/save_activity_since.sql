-- Saves the time from which on activity is known, unless there is one: $1, or the time of the service (table `clock`).
INSERT INTO taskqueue.activity_since (one, since)
SELECT
    1,
    coalesce($1, greatest((extract(epoch FROM clock_timestamp()) * 1000000)::bigint + offset_micros, last_scan_at))
FROM taskqueue.clock
WHERE one = 1
ON CONFLICT (one) DO NOTHING;
