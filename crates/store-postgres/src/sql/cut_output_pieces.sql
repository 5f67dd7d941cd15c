-- Removes from pieces of output what is before the first kept byte, so that these bytes can be kept again.
UPDATE taskqueue.output_pieces SET
    start = kept.first_byte, bytes = substr(output_pieces.bytes, (kept.first_byte - output_pieces.start)::integer + 1)
FROM unnest($1::bigint[], $2::bigint[]) AS kept (task_key, first_byte)
WHERE
    output_pieces.task_key = kept.task_key AND output_pieces.start < kept.first_byte
    AND output_pieces.start + octet_length(output_pieces.bytes) > kept.first_byte;
