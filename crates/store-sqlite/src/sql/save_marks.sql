-- Saves how far the claim index was written to the file.
UPDATE claim_index SET last_key = ?1, flushed_at = ?2, latest_at = max(latest_at, ?3);
