-- Which of the runs that heartbeats are held for are no longer active. Each is two lookups by primary key, whatever the planner
-- knows: a subquery in a condition cannot become a join that reads whole tables.
SELECT watched.run_id
FROM unnest($1::text[]) AS watched (run_id)
WHERE (
    SELECT tasks.run_id
    FROM taskqueue.tasks
    WHERE tasks.task_key = (SELECT runs.task_key FROM taskqueue.runs WHERE runs.run_id = watched.run_id)
) IS DISTINCT FROM watched.run_id;
