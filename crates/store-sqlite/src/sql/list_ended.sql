-- Lists tasks of a queue that ended in a state, up to a time, the earliest first.
SELECT ended_at, task_key FROM ended
WHERE queue_key = ?1 AND status = ?2 AND ended_at <= ?3
ORDER BY ended_at, task_key
LIMIT ?4;
