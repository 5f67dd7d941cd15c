-- The schema itself, before it is known to be ours: the catalogue, which every role may read.

-- name: INSPECT_SCHEMA
-- Tells whether there is a schema $1, what columns its table `migrations` has, and whether there is anything else in it.
SELECT
    n.oid IS NOT NULL,
    (
        SELECT string_agg(a.attname || ' ' || format_type(a.atttypid, NULL), ', ' ORDER BY a.attnum)
        FROM pg_class AS c
        JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
        WHERE c.relnamespace = n.oid AND c.relname = 'migrations' AND c.relkind = 'r'
    ),
    EXISTS (SELECT 1 FROM pg_class AS c WHERE c.relnamespace = n.oid)
FROM (SELECT 1) AS one
LEFT JOIN pg_namespace AS n ON n.nspname = $1::text;

-- name: HAS_SCHEMA
-- Tells whether there is a schema $1 of ours.
SELECT EXISTS (
    SELECT 1 FROM pg_class JOIN pg_namespace ON pg_namespace.oid = pg_class.relnamespace
    WHERE pg_namespace.nspname = $1::text AND pg_class.relname = 'migrations'
);

-- name: LIST_RELATIONS
-- Lists the names of the tables and indexes of the schema $1.
SELECT pg_class.relname::text
FROM pg_class
JOIN pg_namespace ON pg_namespace.oid = pg_class.relnamespace
WHERE pg_namespace.nspname = $1::text;

-- name: LIST_DAMAGE
-- Lists what PostgreSQL itself knows to be damaged: invalid indexes of the schema $1, and pages of the database whose checksums were
-- wrong when they were read.
SELECT 'index ' || pg_class.relname || ' is not valid; REINDEX it' AS what
FROM pg_index
JOIN pg_class ON pg_class.oid = pg_index.indexrelid
JOIN pg_namespace ON pg_namespace.oid = pg_class.relnamespace
WHERE pg_namespace.nspname = $1::text AND NOT pg_index.indisvalid
UNION ALL
SELECT pg_stat_database.checksum_failures || ' pages had wrong checksums when they were read, the last one at '
    || pg_stat_database.checksum_last_failure
FROM pg_stat_database
WHERE pg_stat_database.datname = current_database() AND pg_stat_database.checksum_failures > 0;

-- name: LIST_CHECKABLE_INDEXES
-- Lists the indexes of the schema $1, if the extension that checks them is installed and this role may use it.
SELECT
    pg_class.oid::text AS index_id, pg_class.relname::text AS index_name,
    quote_ident(extension_schema.nspname) AS extension_schema
FROM pg_class
JOIN pg_namespace ON pg_namespace.oid = pg_class.relnamespace
JOIN pg_am ON pg_am.oid = pg_class.relam AND pg_am.amname = 'btree'
JOIN pg_extension ON pg_extension.extname = 'amcheck'
JOIN pg_namespace AS extension_schema ON extension_schema.oid = pg_extension.extnamespace
JOIN pg_proc ON pg_proc.proname = 'bt_index_check' AND pg_proc.pronamespace = extension_schema.oid
WHERE pg_namespace.nspname = $1::text AND pg_proc.pronargs = 2 AND has_function_privilege(pg_proc.oid, 'EXECUTE')
ORDER BY pg_class.relname;
