-- Reads the database's time in microseconds, the offset to the time of the service, the last scan, since when the database's
-- clock is ahead; and takes a block of numbers.
SELECT
    (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS micros, offset_micros, last_scan_at,
    nextval('taskqueue.numbers') AS first_number, ahead_since
FROM taskqueue.clock
WHERE one = 1;
