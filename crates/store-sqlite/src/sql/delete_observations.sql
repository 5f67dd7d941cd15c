-- Deletes all observations of a deleted queue.
DELETE FROM observations WHERE queue_key = ?1;
