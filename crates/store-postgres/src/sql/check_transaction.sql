-- Reads whether a transaction was committed, and whether its number is still valid (current_transaction.sql).
SELECT
    pg_xact_status($1::text::xid8),
    $2 = (SELECT checkpoint_lsn::text FROM pg_control_checkpoint())
        || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8);
