-- The bytes of all tables of the schema, with their indexes and what is moved out of rows. A few system calls for each: of the whole
-- database it could be thousands.
SELECT coalesce(sum(pg_total_relation_size(oid)), 0)::bigint AS bytes
FROM pg_class
WHERE relkind = 'r' AND relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = 'taskqueue.queues'::regclass);
