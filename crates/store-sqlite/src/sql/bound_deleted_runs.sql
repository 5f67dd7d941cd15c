-- Shortens the time for which run ids of deleted tasks stay used, after a clock that was wrong.
UPDATE deleted_runs SET kept_until = ?1 WHERE kept_until > ?1;
