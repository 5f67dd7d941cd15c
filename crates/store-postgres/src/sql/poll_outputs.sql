-- Of the runs whose output is watched: whether they are active, and how far their output goes; null where nothing is kept of it.
-- Each is three lookups by primary key, whatever the planner knows (poll_runs).
SELECT
    watched.run_id,
    (
        SELECT tasks.run_id
        FROM taskqueue.tasks
        WHERE tasks.task_key = (SELECT runs.task_key FROM taskqueue.runs WHERE runs.run_id = watched.run_id)
    ) IS NOT DISTINCT FROM watched.run_id,
    (
        SELECT outputs.end_offset
        FROM taskqueue.outputs
        WHERE
            outputs.task_key = (SELECT runs.task_key FROM taskqueue.runs WHERE runs.run_id = watched.run_id)
            AND outputs.run_id = watched.run_id
    )
FROM unnest($1::text[]) AS watched (run_id);
