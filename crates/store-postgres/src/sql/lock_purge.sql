-- Finds a deleted queue to purge, and until when the run ids of its tasks stay used: $1 microseconds from now if its deletion
-- did not record a time.
SELECT
    purges.queue_key,
    coalesce(
        purges.kept_until,
        greatest(
            (extract(epoch FROM clock_timestamp()) * 1000000)::bigint + clock.offset_micros, clock.last_scan_at
        ) + $1
    )
FROM taskqueue.purges
CROSS JOIN taskqueue.clock
LIMIT 1
FOR UPDATE OF purges SKIP LOCKED;
