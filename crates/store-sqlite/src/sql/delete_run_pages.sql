-- Deletes pages of a segment that was merged into another one.
DELETE FROM run_pages WHERE page BETWEEN ?1 AND ?2;
