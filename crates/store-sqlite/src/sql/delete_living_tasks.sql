-- Deletes a chunk in which no task is pending or running.
DELETE FROM living_tasks WHERE chunk = ?1;
