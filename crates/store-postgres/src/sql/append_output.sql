-- Appends output to pieces.
UPDATE taskqueue.output_pieces SET bytes = output_pieces.bytes || added.bytes
FROM unnest($1::bigint[], $2::bigint[], $3::bytea[]) AS added (task_key, start, bytes)
WHERE output_pieces.task_key = added.task_key AND output_pieces.start = added.start;
