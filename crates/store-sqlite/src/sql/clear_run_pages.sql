-- Deletes all pages of used run ids.
DELETE FROM run_pages;
