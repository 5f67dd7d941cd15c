-- Saves the last errors of tasks.
INSERT INTO taskqueue.outcomes (task_key, error, error_occurred_at, error_attempt, error_run_id)
SELECT * FROM unnest($1::bigint[], $2::text[], $3::bigint[], $4::bigint[], $5::text[])
ON CONFLICT (task_key) DO UPDATE SET
    error = excluded.error, error_occurred_at = excluded.error_occurred_at, error_attempt = excluded.error_attempt,
    error_run_id = excluded.error_run_id;
