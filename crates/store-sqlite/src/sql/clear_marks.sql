-- Lets the next start read all tasks.
UPDATE claim_index SET last_key = 0, flushed_at = 0, latest_at = 0;
