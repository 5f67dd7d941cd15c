-- Deletes the observation of a worker.
DELETE FROM observations WHERE queue_key = ?1 AND id = ?2;
