-- What runs print.

-- name: LOAD_OUTPUTS
-- Loads what is kept of the output of tasks, by queue and id, without the bytes.
SELECT tasks.task_key, outputs.run_id, outputs.attempt, outputs.parts, outputs.last_start
FROM unnest($1::text[], $2::text[]) AS named (queue, id)
JOIN taskqueue.queues ON queues.name = named.queue
CROSS JOIN LATERAL (
    -- A range and an order, which only the index by id can serve (lock_tasks).
    SELECT task_key FROM taskqueue.tasks
    WHERE tasks.queue_key = queues.queue_key AND tasks.id >= named.id AND tasks.id <= named.id
    ORDER BY tasks.id
    LIMIT 1
) AS tasks
LEFT JOIN taskqueue.outputs ON outputs.task_key = tasks.task_key;

-- name: LOAD_OUTPUTS_BY_KEY
-- Loads what is kept of the output of tasks, by key, without the bytes.
SELECT task_key, run_id, attempt, parts, last_start
FROM taskqueue.outputs
WHERE task_key = ANY($1::bigint[]);

-- name: APPEND_OUTPUT
-- Appends output to pieces.
UPDATE taskqueue.output_pieces SET bytes = output_pieces.bytes || added.bytes
FROM unnest($1::bigint[], $2::bigint[], $3::bytea[]) AS added (task_key, start, bytes)
WHERE output_pieces.task_key = added.task_key AND output_pieces.start = added.start;

-- name: INSERT_OUTPUT_PIECES
-- Adds pieces of output.
INSERT INTO taskqueue.output_pieces (task_key, start, bytes)
SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bytea[]);

-- name: CUT_OUTPUT_PIECES
-- Removes from pieces of output what is before the first kept byte, so that these bytes can be kept again.
UPDATE taskqueue.output_pieces SET
    start = kept.first_byte, bytes = substr(output_pieces.bytes, (kept.first_byte - output_pieces.start)::integer + 1)
FROM unnest($1::bigint[], $2::bigint[]) AS kept (task_key, first_byte)
WHERE
    output_pieces.task_key = kept.task_key AND output_pieces.start < kept.first_byte
    AND output_pieces.start + octet_length(output_pieces.bytes) > kept.first_byte;

-- name: DELETE_OUTPUT_PIECES
-- Deletes the pieces of output that end before the first kept byte of their task.
DELETE FROM taskqueue.output_pieces
USING unnest($1::bigint[], $2::bigint[]) AS kept (task_key, first_byte)
WHERE
    output_pieces.task_key = kept.task_key AND output_pieces.start < kept.first_byte
    AND output_pieces.start + octet_length(output_pieces.bytes) <= kept.first_byte;

-- name: SAVE_OUTPUTS
-- Saves what is kept of the output of tasks.
INSERT INTO taskqueue.outputs (task_key, run_id, attempt, parts, last_start, end_offset, bytes)
SELECT * FROM unnest(
    $1::bigint[], $2::text[], $3::bigint[], $4::text[], $5::bigint[], $6::bigint[], $7::bigint[]
)
ON CONFLICT (task_key) DO UPDATE SET
    run_id = excluded.run_id, attempt = excluded.attempt, parts = excluded.parts, last_start = excluded.last_start,
    end_offset = excluded.end_offset, bytes = excluded.bytes;

-- name: GET_OUTPUT
-- Reads what is kept of the output of a task by its queue and id, without the bytes, and its active run. No row: no such queue;
-- a row of nulls: no such task.
SELECT
    tasks.task_key, tasks.run_id AS active_run_id, outputs.run_id, outputs.attempt, outputs.parts, outputs.last_start
FROM taskqueue.queues
LEFT JOIN taskqueue.tasks ON tasks.queue_key = queues.queue_key AND tasks.id = $2::text
LEFT JOIN taskqueue.outputs ON outputs.task_key = tasks.task_key
WHERE queues.name = $1::text;

-- name: GET_OUTPUT_PIECES
-- Reads the pieces of the output of a task that hold bytes from $2 to before $3, if they are of the run $4. The first of them may
-- begin before $2: pieces do not overlap, so it is the last one that does.
SELECT start, bytes
FROM taskqueue.output_pieces
WHERE
    task_key = $1::bigint AND start < $3::bigint
    AND start >= coalesce(
        (
            SELECT first.start
            FROM taskqueue.output_pieces AS first
            WHERE first.task_key = $1 AND first.start <= $2::bigint
            ORDER BY first.start DESC
            LIMIT 1
        ),
        $2
    )
    AND (SELECT outputs.run_id FROM taskqueue.outputs WHERE outputs.task_key = $1) = $4::text
ORDER BY start;
