SELECT last_at FROM lease_scans;
