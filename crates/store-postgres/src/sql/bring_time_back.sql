-- Corrects a clock that was wrong. It applies if the time of the service is ahead of the database's clock by more than $2,
-- if that clock is not before $3, and if no server is running (as in raise_clock.sql). Then the service takes the
-- database's time, and what would last too long lasts as if it had begun now: leases $4, run ids of deleted tasks $5. Time limits of runs
-- move with their leases.
-- Timestamps of tasks stay as they are.
WITH
    wrong AS (
        SELECT read.micros AS now
        FROM taskqueue.clock
        CROSS JOIN (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS micros) AS read
        WHERE one = 1 AND read.micros >= $3
            AND greatest(read.micros + offset_micros, last_scan_at) > read.micros + $2
            AND (last_scan_at IS NULL OR abs(read.micros + offset_micros - last_scan_at) > $1)
        FOR UPDATE OF clock
    ),
    bound_leases AS (
        UPDATE taskqueue.tasks SET
            lease_expires_at = wrong.now + $4,
            times_out_at = times_out_at - (lease_expires_at - (wrong.now + $4))
        FROM wrong, taskqueue.running
        WHERE tasks.task_key = running.task_key AND tasks.lease_expires_at > wrong.now + $4
    ),
    bound_runs AS (UPDATE taskqueue.runs SET kept_until = wrong.now + $5 FROM wrong WHERE kept_until > wrong.now + $5),
    bound_purges AS (UPDATE taskqueue.purges SET kept_until = wrong.now + $5 FROM wrong WHERE kept_until > wrong.now + $5),
    -- Running workers report again within seconds.
    late_observations AS (DELETE FROM taskqueue.observations USING wrong WHERE last_seen_at > wrong.now)
UPDATE taskqueue.clock SET offset_micros = 0, last_scan_at = wrong.now, ahead_since = NULL
FROM wrong WHERE one = 1;
