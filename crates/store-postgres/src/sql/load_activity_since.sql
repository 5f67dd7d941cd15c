-- Loads the time of the service (table `clock`), and since when activity is counted.
SELECT
    greatest(
        (extract(epoch FROM clock_timestamp()) * 1000000)::bigint + clock.offset_micros, clock.last_scan_at
    ) AS now,
    activity_since.since
FROM taskqueue.clock
CROSS JOIN taskqueue.activity_since;
