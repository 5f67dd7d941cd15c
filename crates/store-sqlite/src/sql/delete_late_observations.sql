-- Those that were made later than now.
DELETE FROM observations WHERE last_seen_at > ?1;
