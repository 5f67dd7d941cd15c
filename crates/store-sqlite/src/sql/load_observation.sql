SELECT id, route, status, task_id, last_seen_at, expires_at, metadata FROM observations WHERE queue_key = ?1 AND id = ?2;
