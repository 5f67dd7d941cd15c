-- Whether delayed tasks are due, whether anything else may be that nobody asks for, and the clock like load_clock, without a block of
-- numbers. $1 is the time if it is not that of the service.
SELECT
    micros, offset_micros, last_scan_at, 0::bigint AS first_number, ahead_since,
    EXISTS (SELECT 1 FROM taskqueue.delayed WHERE delayed.not_before <= coalesce($1, now)) AS has_delayed,
    EXISTS (SELECT 1 FROM taskqueue.unsettled)
    OR EXISTS (SELECT 1 FROM taskqueue.ended_readings)
    OR EXISTS (SELECT 1 FROM taskqueue.retention) AS has_more
FROM (
    SELECT
        *, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS micros,
        greatest((extract(epoch FROM clock_timestamp()) * 1000000)::bigint + offset_micros, last_scan_at) AS now
    FROM taskqueue.clock
    WHERE one = 1
) AS clock;
