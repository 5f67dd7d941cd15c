-- Loads how far the claim index was written to the file.
SELECT last_key, flushed_at, latest_at FROM claim_index;
