-- Reads the clock like load_clock and locks it. No row: another server does upkeep, or scans the leases.
SELECT
    (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS micros, offset_micros, last_scan_at,
    nextval('taskqueue.numbers') AS first_number, ahead_since
FROM taskqueue.clock
WHERE one = 1
FOR UPDATE SKIP LOCKED;
