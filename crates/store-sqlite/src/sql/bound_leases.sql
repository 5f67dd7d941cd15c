-- Shortens leases that would last too long, after a clock that was wrong.
UPDATE tasks SET lease_expires_at = ?1 WHERE lease_expires_at > ?1;
