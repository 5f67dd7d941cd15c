-- The same in one queue.
SELECT queue_key, dependency, after_key FROM unsettled WHERE queue_key = ?1 LIMIT 1;
