-- Forgets the first run ids of deleted tasks whose time is over.
DELETE FROM taskqueue.runs
WHERE run_id = ANY (ARRAY(
    SELECT run_id FROM taskqueue.runs WHERE kept_until <= $1 ORDER BY kept_until, run_id LIMIT $2
));
