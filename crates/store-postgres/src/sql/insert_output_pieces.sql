-- Adds pieces of output.
INSERT INTO taskqueue.output_pieces (task_key, start, bytes)
SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bytea[]);
