-- Saves what actions change in the narrow rows of tasks.
UPDATE taskqueue.tasks SET
    status = saved.status, attempt = saved.attempt, pending_seq = saved.pending_seq, last_route = saved.last_route,
    updated_at = saved.updated_at, started_at = saved.started_at, finished_at = saved.finished_at, run_id =
    saved.run_id, lease_expires_at = saved.lease_expires_at, finished_run_id = saved.finished_run_id,
    finished_run_end = saved.finished_run_end, progress_bytes = saved.progress_bytes,
    not_before = saved.not_before, unmet = saved.unmet, archived = saved.archived, times_out_at = saved.times_out_at
FROM unnest(
    $1::bigint[], $2::text[], $3::bigint[], $4::bigint[], $5::text[], $6::bigint[], $7::bigint[], $8::bigint[],
    $9::text[], $10::bigint[], $11::text[], $12::text[],
    $13::bigint[], $14::bigint[], $15::integer[], $16::boolean[], $17::bigint[]
) AS saved (
    task_key, status, attempt, pending_seq, last_route, updated_at, started_at, finished_at, run_id,
    lease_expires_at, finished_run_id, finished_run_end, progress_bytes, not_before, unmet, archived,
    times_out_at
)
WHERE tasks.task_key = saved.task_key;
