-- After an outage, or when the clock was set back: the time of the service continues from the last write. A write that is
-- ahead by more than $2 comes from a clock that was wrong and is ignored.
-- Reads every task. A server that starts while others are running skips it.
UPDATE taskqueue.clock
SET last_scan_at = greatest(last_scan_at, (
    SELECT max(updated_at) FROM taskqueue.tasks
    WHERE updated_at <= (extract(epoch FROM clock_timestamp()) * 1000000)::bigint + clock.offset_micros + $2
))
WHERE one = 1 AND (
    last_scan_at IS NULL
    OR abs((extract(epoch FROM clock_timestamp()) * 1000000)::bigint + offset_micros - last_scan_at) > $1
);
