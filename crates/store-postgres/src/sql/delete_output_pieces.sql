-- Deletes the pieces of output that end before the first kept byte of their task.
DELETE FROM taskqueue.output_pieces
USING unnest($1::bigint[], $2::bigint[]) AS kept (task_key, first_byte)
WHERE
    output_pieces.task_key = kept.task_key AND output_pieces.start < kept.first_byte
    AND output_pieces.start + octet_length(output_pieces.bytes) <= kept.first_byte;
