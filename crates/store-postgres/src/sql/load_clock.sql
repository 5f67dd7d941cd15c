-- Reads the database's time in microseconds, the offset to the time of the service, the last scan, since when the database's
-- clock is ahead; and takes a block of numbers. And whether any task waits for another one, and when the next delayed one is due:
-- most installations have none.
SELECT
    (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS micros, offset_micros, last_scan_at,
    nextval('taskqueue.numbers') AS first_number, ahead_since,
    EXISTS (SELECT 1 FROM taskqueue.dependencies) AS has_dependencies,
    (SELECT not_before FROM taskqueue.delayed ORDER BY not_before LIMIT 1) AS next_due
FROM taskqueue.clock
WHERE one = 1;
