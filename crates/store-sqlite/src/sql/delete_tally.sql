-- Deletes the counts of a deleted queue.
DELETE FROM tally WHERE queue_key = ?1;
