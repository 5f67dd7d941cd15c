-- The database's time in microseconds, what is to be added to it, the last scan, and a block of numbers.
SELECT
    (extract(epoch FROM clock_timestamp()) * 1000000)::bigint, offset_micros, last_scan_at,
    nextval('taskqueue.numbers')
FROM taskqueue.clock
WHERE one = 1;
