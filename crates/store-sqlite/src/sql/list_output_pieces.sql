-- Lists the pieces of output with the bytes from ?2 to before ?3.
SELECT start, bytes
FROM output_pieces
WHERE task_key = ?1
    AND start >= (SELECT max(start) FROM output_pieces WHERE task_key = ?1 AND start <= ?2)
    AND start < ?3
ORDER BY start;
