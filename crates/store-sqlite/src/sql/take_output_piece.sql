-- Deletes the piece of output that begins at an offset, if it has fewer than ?3 bytes, and gives them.
DELETE FROM output_pieces WHERE task_key = ?1 AND start = ?2 AND length(bytes) < ?3 RETURNING bytes;
