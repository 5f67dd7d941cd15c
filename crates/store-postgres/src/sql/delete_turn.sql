-- Removes the row that claims of a queue hold one after the other.
DELETE FROM taskqueue.claim_turns WHERE queue_key = $1;
