-- Sets the times again, after a clock that was wrong: ?1 is the latest time of any task, ?2 is now.
UPDATE claim_index SET latest_at = ?1, flushed_at = min(flushed_at, ?2);
