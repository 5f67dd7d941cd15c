-- Deletes expired observations. Scans the table: it has one row for each live worker, and this runs once in five seconds.
DELETE FROM observations WHERE expires_at <= ?1;
