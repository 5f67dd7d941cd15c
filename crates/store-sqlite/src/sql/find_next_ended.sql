-- Finds the first ended task of the next queue and state for which any is noted.
SELECT queue_key, status, ended_at FROM ended
WHERE (queue_key, status) > (?1, ?2)
ORDER BY queue_key, status, ended_at
LIMIT 1;
