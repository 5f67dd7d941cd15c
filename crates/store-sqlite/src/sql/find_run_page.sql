-- Finds a page of used run ids.
SELECT entries FROM run_pages WHERE page = ?1;
