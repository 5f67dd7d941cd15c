-- Lists the first run ids of deleted tasks whose time is over, behind one of them.
SELECT run_id, kept_until
FROM deleted_runs
WHERE kept_until <= ?1 AND (kept_until, run_id) > (?2, ?3)
ORDER BY kept_until, run_id
LIMIT ?4;
