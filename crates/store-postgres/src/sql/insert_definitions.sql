-- Adds the definitions of new tasks.
INSERT INTO taskqueue.definitions (task_key, identity, args, metadata)
SELECT * FROM unnest($1::bigint[], $2::bytea[], $3::text[], $4::text[]);
