-- Deletes all chunks.
DELETE FROM living_tasks;
