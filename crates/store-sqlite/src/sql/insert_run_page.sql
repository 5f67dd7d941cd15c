-- Adds a page of used run ids.
INSERT INTO run_pages (page, entries) VALUES (?1, ?2);
