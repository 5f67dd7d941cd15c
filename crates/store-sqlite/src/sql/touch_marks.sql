-- Records the time of a change that a start would not find otherwise.
UPDATE claim_index SET latest_at = max(latest_at, ?1);
