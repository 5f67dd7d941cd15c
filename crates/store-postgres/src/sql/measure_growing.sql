-- The bytes of the tables that fill and empty, without their indexes: a system call for each.
SELECT ARRAY[
    pg_relation_size('taskqueue.tasks'::regclass), pg_relation_size('taskqueue.definitions'::regclass),
    pg_relation_size('taskqueue.outcomes'::regclass), pg_relation_size('taskqueue.ready'::regclass),
    pg_relation_size('taskqueue.running'::regclass), pg_relation_size('taskqueue.delayed'::regclass),
    pg_relation_size('taskqueue.dependencies'::regclass), pg_relation_size('taskqueue.runs'::regclass)
] AS bytes;
