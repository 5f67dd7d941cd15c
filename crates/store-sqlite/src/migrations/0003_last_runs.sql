-- Who ran a task last, for tasks whose latest claim said so. The id of that run is in `tasks`: it is the active run or the
-- latest finished one. Adding columns rewrites no row, whatever the size of the file.
ALTER TABLE outcomes ADD COLUMN last_run_attempt INTEGER;
ALTER TABLE outcomes ADD COLUMN last_run_worker TEXT;
