-- Adds the narrow rows of new tasks.
INSERT INTO taskqueue.tasks (
    task_key, queue_key, id, status, name, priority, attempt, max_attempts, routes, last_route, created_at,
    updated_at, started_at, finished_at, pending_seq, run_id, lease_expires_at, finished_run_id, finished_run_end,
    definition_bytes, progress_bytes, not_before, unmet, archived, times_out_at, scheduling
)
SELECT * FROM unnest(
    $1::bigint[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::bigint[], $7::bigint[], $8::bigint[],
    $9::text[], $10::text[], $11::bigint[], $12::bigint[], $13::bigint[], $14::bigint[], $15::bigint[], $16::text[],
    $17::bigint[], $18::text[], $19::text[], $20::bigint[], $21::bigint[],
    $22::bigint[], $23::integer[], $24::boolean[], $25::bigint[], $26::text[]
);
