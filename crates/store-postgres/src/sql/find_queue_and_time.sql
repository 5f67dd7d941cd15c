-- The time of the service, as `clock` explains it.
SELECT
    queues.queue_key,
    greatest(
        (extract(epoch FROM clock_timestamp()) * 1000000)::bigint + clock.offset_micros, clock.last_scan_at
    ) AS now
FROM taskqueue.queues
CROSS JOIN taskqueue.clock
WHERE queues.name = $1;
