-- Who ran a task last, for tasks whose latest claim said so. The id of that run is in `tasks`: it is the active run or the
-- latest finished one. Adding columns without a default rewrites no row.
ALTER TABLE taskqueue.outcomes ADD COLUMN last_run_attempt bigint;
ALTER TABLE taskqueue.outcomes ADD COLUMN last_run_worker text COLLATE "C";
