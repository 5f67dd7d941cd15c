-- Deletes a count that has become zero.
DELETE FROM tally WHERE queue_key = ?1 AND routes = ?2 AND status = ?3 AND tasks = 0;
