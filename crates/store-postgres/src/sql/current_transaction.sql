-- Identifies the current transaction, so that the server can ask later whether it was committed, if the connection is lost during
-- COMMIT. After a crash PostgreSQL gives the numbers of unfinished transactions to others, so a number is valid only
-- until the next recovery: recovery ends with a checkpoint, a change of the primary with another timeline.
SELECT
    pg_current_xact_id()::text AS number,
    (SELECT checkpoint_lsn::text FROM pg_control_checkpoint()) || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8)
        AS crash_epoch;
