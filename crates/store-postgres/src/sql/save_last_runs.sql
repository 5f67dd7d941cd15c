-- Saves who runs tasks, as their claims said.
INSERT INTO taskqueue.outcomes (task_key, last_run_attempt, last_run_worker)
SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::text[])
ON CONFLICT (task_key) DO UPDATE SET
    last_run_attempt = excluded.last_run_attempt, last_run_worker = excluded.last_run_worker;
