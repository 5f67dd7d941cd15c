UPDATE tasks SET lease_expires_at = ?1 WHERE lease_expires_at > ?1;
