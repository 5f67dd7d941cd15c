-- To ask later what became of this transaction, should the connection be lost while it commits. A server that crashed
-- gives the names of unfinished transactions to others, so a name counts only as long as the server did not recover
-- since: recovery ends with a checkpoint, a change of the primary with another timeline.
SELECT
    pg_current_xact_id()::text AS number,
    (SELECT checkpoint_lsn::text FROM pg_control_checkpoint()) || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8)
        AS life;
