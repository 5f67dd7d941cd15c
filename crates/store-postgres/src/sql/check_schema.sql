-- Whether there is a schema of ours. Reads the catalogue, which every role may read.
SELECT EXISTS (
    SELECT 1 FROM pg_class JOIN pg_namespace ON pg_namespace.oid = pg_class.relnamespace
    WHERE pg_namespace.nspname = $1 AND pg_class.relname = 'migrations'
);
