-- Finds the key of a queue by its name, and the time of the service (table `clock`).
SELECT
    queues.queue_key,
    greatest(
        (extract(epoch FROM clock_timestamp()) * 1000000)::bigint + clock.offset_micros, clock.last_scan_at
    ) AS now
FROM taskqueue.queues
CROSS JOIN taskqueue.clock
WHERE queues.name = $1;
