-- Adds a piece of output.
INSERT INTO output_pieces (task_key, start, bytes) VALUES (?1, ?2, ?3);
