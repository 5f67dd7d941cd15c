-- Lists what is kept of the output of tasks after the key $1 and up to $2, with the numbers that are noted beside it and the
-- places of its pieces, for a check.
SELECT
    outputs.task_key, outputs.run_id, outputs.attempt, outputs.parts, outputs.last_start, outputs.end_offset, outputs.bytes,
    ARRAY(
        SELECT output_pieces.start FROM taskqueue.output_pieces
        WHERE output_pieces.task_key = outputs.task_key ORDER BY output_pieces.start
    ) AS starts,
    ARRAY(
        SELECT octet_length(output_pieces.bytes)::bigint FROM taskqueue.output_pieces
        WHERE output_pieces.task_key = outputs.task_key ORDER BY output_pieces.start
    ) AS lengths
FROM taskqueue.outputs
WHERE outputs.task_key > $1 AND outputs.task_key <= $2;
