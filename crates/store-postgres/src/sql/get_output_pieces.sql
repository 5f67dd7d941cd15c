-- Reads the pieces of the output of a task that hold bytes from $2 to before $3, if they are of the run $4. The first of them may
-- begin before $2: pieces do not overlap, so it is the last one that does.
SELECT start, bytes
FROM taskqueue.output_pieces
WHERE
    task_key = $1 AND start < $3
    AND start >= coalesce(
        (
            SELECT first.start
            FROM taskqueue.output_pieces AS first
            WHERE first.task_key = $1 AND first.start <= $2
            ORDER BY first.start DESC
            LIMIT 1
        ),
        $2
    )
    AND (SELECT outputs.run_id FROM taskqueue.outputs WHERE outputs.task_key = $1) = $4
ORDER BY start;
