-- Deletes a segment whose pages are gone.
DELETE FROM run_segments WHERE segment = ?1;
