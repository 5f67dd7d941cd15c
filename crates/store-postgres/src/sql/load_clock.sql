-- The database's time in microseconds, what is to be added to it, the last scan, a block of numbers, and since when the
-- database's clock is ahead.
SELECT
    (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS micros, offset_micros, last_scan_at,
    nextval('taskqueue.numbers') AS first_number, ahead_since
FROM taskqueue.clock
WHERE one = 1;
