-- Takes the turn to claim in a queue until the end of the transaction. No row: another transaction has it.
SELECT queue_key FROM taskqueue.claim_turns WHERE queue_key = $1 FOR UPDATE SKIP LOCKED;
