-- How far the output of watched runs goes; null where nothing is kept of it. Each is two lookups by primary key, whatever the
-- planner knows (poll_runs).
SELECT
    watched.run_id,
    (
        SELECT outputs.end_offset
        FROM taskqueue.outputs
        WHERE
            outputs.task_key = (SELECT runs.task_key FROM taskqueue.runs WHERE runs.run_id = watched.run_id)
            AND outputs.run_id = watched.run_id
    ) AS end_offset
FROM unnest($1::text[]) AS watched (run_id);
