-- Deletes what was left to be settled in a deleted queue.
DELETE FROM unsettled WHERE queue_key = ?1;
