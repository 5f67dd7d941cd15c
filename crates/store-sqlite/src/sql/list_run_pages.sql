-- Lists pages of a segment.
SELECT page, entries FROM run_pages WHERE page BETWEEN ?1 AND ?2 ORDER BY page;
