-- Lists the first run ids of deleted tasks whose time is over.
SELECT run_id, kept_until FROM deleted_runs WHERE kept_until <= ?1 ORDER BY kept_until, run_id LIMIT ?2;
