-- Finds the last piece of output that begins before an offset, and its bytes if there are fewer than ?3.
SELECT piece_key, start, length(bytes) AS length, iif(length(bytes) < ?3, bytes, NULL) AS bytes
FROM output_pieces
WHERE task_key = ?1 AND start < ?2
ORDER BY start DESC
LIMIT 1;
