UPDATE taskqueue.clock SET last_scan_at = $1, offset_micros = $2, ahead_since = $3 WHERE one = 1;
