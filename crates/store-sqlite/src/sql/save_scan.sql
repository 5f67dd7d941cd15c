-- Saves the time of the last lease scan.
INSERT INTO lease_scans (one, last_at) VALUES (1, ?1) ON CONFLICT (one) DO UPDATE SET last_at = excluded.last_at;
