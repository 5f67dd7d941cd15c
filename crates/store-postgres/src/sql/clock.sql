-- The clock of the service, what is due, and what a transaction is.

-- name: LOAD_CLOCK
-- Reads the database's time in microseconds, the offset to the time of the service, the last scan, since when the database's
-- clock is ahead; and takes a block of numbers. And whether any task may wait for another one, and when the next delayed one is due:
-- most installations have none. A table without a page has no row, which costs nothing to see; to look for a row would mean to walk
-- over the entries of a million that were deleted, as long as some old snapshot holds them.
SELECT
    (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS micros, offset_micros, last_scan_at,
    nextval('taskqueue.numbers') AS first_number, ahead_since,
    pg_relation_size('taskqueue.dependencies') > 0 AS has_dependencies,
    (SELECT not_before FROM taskqueue.delayed ORDER BY not_before LIMIT 1) AS next_due
FROM taskqueue.clock
WHERE one = 1;

-- name: LOCK_CLOCK
-- Reads the clock like LOAD_CLOCK and locks it, so that only one server scans leases at a time.
SELECT
    (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS micros, offset_micros, last_scan_at,
    nextval('taskqueue.numbers') AS first_number, ahead_since
FROM taskqueue.clock
WHERE one = 1
FOR UPDATE;

-- name: LOCK_CLOCK_IF_FREE
-- Reads the clock like LOAD_CLOCK and locks it. No row: another server does upkeep, or scans the leases.
SELECT
    (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS micros, offset_micros, last_scan_at,
    nextval('taskqueue.numbers') AS first_number, ahead_since
FROM taskqueue.clock
WHERE one = 1
FOR UPDATE SKIP LOCKED;

-- name: RAISE_CLOCK
-- After an outage, or when the clock was set back: the time of the service continues from the last write. A write that is
-- ahead by more than $2 comes from a clock that was wrong and is ignored.
-- Reads every task. A server that starts while others are running skips it.
UPDATE taskqueue.clock
SET last_scan_at = greatest(last_scan_at, (
    SELECT max(updated_at) FROM taskqueue.tasks
    WHERE updated_at <= (extract(epoch FROM clock_timestamp()) * 1000000)::bigint + clock.offset_micros + $2::bigint
))
WHERE one = 1 AND (
    last_scan_at IS NULL
    OR abs((extract(epoch FROM clock_timestamp()) * 1000000)::bigint + offset_micros - last_scan_at) > $1::bigint
);

-- name: BRING_TIME_BACK
-- Corrects a clock that was wrong. It applies if the time of the service is ahead of the database's clock by more than $2,
-- if that clock is not before $3, and if no server is running (as in RAISE_CLOCK). Then the service takes the
-- database's time, and what would last too long lasts as if it had begun now: leases $4, run ids of deleted tasks $5. Time limits of runs
-- move with their leases.
-- Timestamps of tasks stay as they are.
WITH
    wrong AS (
        SELECT read.micros AS now
        FROM taskqueue.clock
        CROSS JOIN (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS micros) AS read
        WHERE one = 1 AND read.micros >= $3::bigint
            AND greatest(read.micros + offset_micros, last_scan_at) > read.micros + $2::bigint
            AND (last_scan_at IS NULL OR abs(read.micros + offset_micros - last_scan_at) > $1::bigint)
        FOR UPDATE OF clock
    ),
    bound_leases AS (
        UPDATE taskqueue.tasks SET
            lease_expires_at = wrong.now + $4::bigint,
            times_out_at = times_out_at - (lease_expires_at - (wrong.now + $4))
        FROM wrong, taskqueue.running
        WHERE tasks.task_key = running.task_key AND tasks.lease_expires_at > wrong.now + $4
    ),
    bound_runs AS (
        UPDATE taskqueue.runs SET kept_until = wrong.now + $5::bigint FROM wrong WHERE kept_until > wrong.now + $5
    ),
    bound_purges AS (UPDATE taskqueue.purges SET kept_until = wrong.now + $5 FROM wrong WHERE kept_until > wrong.now + $5),
    -- Running workers report again within seconds.
    late_observations AS (DELETE FROM taskqueue.observations USING wrong WHERE last_seen_at > wrong.now)
UPDATE taskqueue.clock SET offset_micros = 0, last_scan_at = wrong.now, ahead_since = NULL
FROM wrong WHERE one = 1;

-- name: SAVE_SCAN
-- Saves the time of the last lease scan, and what is known of the clock.
UPDATE taskqueue.clock SET last_scan_at = $1::bigint, offset_micros = $2::bigint, ahead_since = $3::bigint WHERE one = 1;

-- name: PEEK_UPKEEP
-- Whether delayed tasks are due, whether anything else may be that nobody asks for, and the clock like LOAD_CLOCK, without a block of
-- numbers. $1 is the time if it is not that of the service.
SELECT
    micros, offset_micros, last_scan_at, 0::bigint AS first_number, ahead_since,
    EXISTS (SELECT 1 FROM taskqueue.delayed WHERE delayed.not_before <= coalesce($1::bigint, now)) AS has_delayed,
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

-- name: TAKE_NUMBERS
-- Takes a block of numbers for keys and for the pending order.
SELECT nextval('taskqueue.numbers') AS first_number;

-- name: SETTINGS
-- Sets the parameters of a writer's transaction, until its end. One prepared statement: nine SET LOCAL, parsed each time, took
-- as long as all lookups of a claim.
SELECT
    set_config('statement_timeout', '5s', true), set_config('lock_timeout', '4s', true),
    -- What a machine holds that was switched off. No transaction is without a statement for so long.
    set_config('idle_in_transaction_session_timeout', '30s', true),
    set_config('enable_seqscan', 'off', true), set_config('enable_hashjoin', 'off', true),
    set_config('enable_mergejoin', 'off', true), set_config('enable_sort', 'off', true),
    set_config('jit', 'off', true), set_config('plan_cache_mode', 'force_generic_plan', true);

-- name: CURRENT_TRANSACTION
-- Identifies the current transaction, so that the server can ask later whether it was committed, if the connection is lost during
-- COMMIT. After a crash PostgreSQL gives the numbers of unfinished transactions to others, so a number is valid only
-- until the next recovery: recovery ends with a checkpoint, a change of the primary with another timeline.
SELECT
    pg_current_xact_id()::text AS number,
    (SELECT checkpoint_lsn::text FROM pg_control_checkpoint()) || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8)
        AS crash_epoch;

-- name: CHECK_TRANSACTION
-- Reads whether a transaction was committed, and whether its number is still valid (CURRENT_TRANSACTION).
SELECT
    pg_xact_status($1::text::xid8),
    $2::text = (SELECT checkpoint_lsn::text FROM pg_control_checkpoint())
        || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8);

-- name: MEASURE_GROWING
-- The bytes of the tables that fill and empty, without their indexes: a system call for each.
SELECT ARRAY[
    pg_relation_size('taskqueue.tasks'::regclass), pg_relation_size('taskqueue.definitions'::regclass),
    pg_relation_size('taskqueue.outcomes'::regclass), pg_relation_size('taskqueue.ready'::regclass),
    pg_relation_size('taskqueue.running'::regclass), pg_relation_size('taskqueue.delayed'::regclass),
    pg_relation_size('taskqueue.dependencies'::regclass), pg_relation_size('taskqueue.runs'::regclass)
] AS bytes;

-- name: LOAD_INSTALLATION_SECRET
-- Loads the secret of the installation.
SELECT secret FROM taskqueue.installation_secret WHERE one = 1;

-- name: SAVE_INSTALLATION_SECRET
-- Saves the secret of the installation, unless there is one.
INSERT INTO taskqueue.installation_secret (one, secret) VALUES (1, $1::bytea) ON CONFLICT (one) DO NOTHING;
