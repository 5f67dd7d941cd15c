-- Saves the time of the last lease scan, and what is known of the clock.
UPDATE taskqueue.clock SET last_scan_at = $1, offset_micros = $2, ahead_since = $3 WHERE one = 1;
