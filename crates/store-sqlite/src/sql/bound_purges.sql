-- Shortens the time that deletions of queues recorded for their run ids, after a clock that was wrong.
UPDATE purges SET kept_until = ?1 WHERE kept_until > ?1;
