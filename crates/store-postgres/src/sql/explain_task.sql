-- Finds a task of a queue without its JSON, the settings of the queue, and the time of the service (table `clock`). No row: no such
-- queue; without a key: no such task. By a range, which only the index by id can serve.
SELECT
    {head_columns}, queues.queue_key AS explained_queue, queues.settings,
    greatest(
        (extract(epoch FROM clock_timestamp()) * 1000000)::bigint + clock.offset_micros, clock.last_scan_at
    ) AS now
FROM taskqueue.queues
CROSS JOIN taskqueue.clock
LEFT JOIN LATERAL (
    SELECT * FROM taskqueue.tasks
    WHERE tasks.queue_key = queues.queue_key AND tasks.id >= $2 AND tasks.id <= $2
    ORDER BY tasks.id
    LIMIT 1
) AS tasks ON true
WHERE queues.name = $1;
