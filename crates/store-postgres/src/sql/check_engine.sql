-- Lists what PostgreSQL itself knows to be damaged, for a check: invalid indexes of the schema $1, and pages of the database whose
-- checksums were wrong when they were read.
SELECT 'index ' || pg_class.relname || ' is not valid; REINDEX it' AS what
FROM pg_index
JOIN pg_class ON pg_class.oid = pg_index.indexrelid
JOIN pg_namespace ON pg_namespace.oid = pg_class.relnamespace
WHERE pg_namespace.nspname = $1 AND NOT pg_index.indisvalid
UNION ALL
SELECT pg_stat_database.checksum_failures || ' pages had wrong checksums when they were read, the last one at '
    || pg_stat_database.checksum_last_failure
FROM pg_stat_database
WHERE pg_stat_database.datname = current_database() AND pg_stat_database.checksum_failures > 0;
