-- Saves how far runs are.
INSERT INTO taskqueue.outcomes (task_key, progress, progress_updated_at, progress_attempt)
SELECT * FROM unnest($1::bigint[], $2::text[], $3::bigint[], $4::bigint[])
ON CONFLICT (task_key) DO UPDATE SET
    progress = excluded.progress, progress_updated_at = excluded.progress_updated_at,
    progress_attempt = excluded.progress_attempt;
