-- What runs print.

-- name: LOAD_OUTPUT
-- Loads what is kept of the output of a task, without its bytes.
SELECT packed FROM outputs WHERE task_key = ?1;

-- name: SAVE_OUTPUT
-- Saves what is kept of the output of a task.
INSERT INTO outputs (task_key, packed) VALUES (?1, ?2)
ON CONFLICT (task_key) DO UPDATE SET packed = excluded.packed;

-- name: DELETE_OUTPUT
-- Deletes what is kept of the output of a deleted task.
DELETE FROM outputs WHERE task_key = ?1;

-- name: GET_OUTPUT
-- Reads what is kept of the output of a task, without its bytes, by the name of its queue and its id.
SELECT tasks.task_key, tasks.packed AS head, outputs.packed AS output
FROM tasks
LEFT JOIN outputs ON outputs.task_key = tasks.task_key
WHERE tasks.queue_key = (SELECT queues.queue_key FROM queues WHERE queues.name = ?1) AND tasks.id = ?2;

-- name: LIST_OUTPUT_PIECES
-- Lists the pieces of output with the bytes from ?2 to before ?3.
SELECT start, bytes
FROM output_pieces
WHERE task_key = ?1
    AND start >= (SELECT max(start) FROM output_pieces WHERE task_key = ?1 AND start <= ?2)
    AND start < ?3
ORDER BY start;

-- name: FIND_OUTPUT_PIECE
-- Finds the last piece of output that begins before an offset, and its bytes if there are fewer than ?3.
SELECT piece_key, start, length(bytes) AS length, iif(length(bytes) < ?3, bytes, NULL) AS bytes
FROM output_pieces
WHERE task_key = ?1 AND start < ?2
ORDER BY start DESC
LIMIT 1;

-- name: TAKE_OUTPUT_PIECE
-- Deletes the piece of output that begins at an offset, if it has fewer than ?3 bytes, and gives them.
DELETE FROM output_pieces WHERE task_key = ?1 AND start = ?2 AND length(bytes) < ?3 RETURNING bytes;

-- name: INSERT_OUTPUT_PIECE
-- Adds a piece of output.
INSERT INTO output_pieces (task_key, start, bytes) VALUES (?1, ?2, ?3);

-- name: SAVE_OUTPUT_PIECE
-- Replaces the bytes of a piece of output.
UPDATE output_pieces SET bytes = ?2 WHERE piece_key = ?1;

-- name: DELETE_OUTPUT_PIECES
-- Deletes all output of a task.
DELETE FROM output_pieces WHERE task_key = ?1;

-- name: DELETE_OLD_OUTPUT_PIECES
-- Deletes the pieces of output before the one with the first byte that is kept.
DELETE FROM output_pieces
WHERE task_key = ?1 AND start < (SELECT max(start) FROM output_pieces WHERE task_key = ?1 AND start <= ?2);
