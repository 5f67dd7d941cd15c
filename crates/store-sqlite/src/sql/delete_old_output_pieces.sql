-- Deletes the pieces of output before the one with the first byte that is kept.
DELETE FROM output_pieces
WHERE task_key = ?1 AND start < (SELECT max(start) FROM output_pieces WHERE task_key = ?1 AND start <= ?2);
