-- Deletes observations that were made later than now, after a clock that was wrong.
DELETE FROM observations WHERE last_seen_at > ?1;
