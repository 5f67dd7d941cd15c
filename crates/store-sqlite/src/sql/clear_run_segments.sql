-- Deletes all segments.
DELETE FROM run_segments;
