-- Loads the time of the last lease scan.
SELECT last_at FROM lease_scans;
