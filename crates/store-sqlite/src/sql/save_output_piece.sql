-- Replaces the bytes of a piece of output.
UPDATE output_pieces SET bytes = ?2 WHERE piece_key = ?1;
