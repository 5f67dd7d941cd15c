UPDATE taskqueue.clock SET last_scan_at = $1, offset_micros = $2 WHERE one = 1;
