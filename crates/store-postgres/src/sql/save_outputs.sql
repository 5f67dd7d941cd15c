-- Saves what is kept of the output of tasks.
INSERT INTO taskqueue.outputs (task_key, run_id, attempt, parts, last_start, end_offset, bytes)
SELECT * FROM unnest(
    $1::bigint[], $2::text[], $3::bigint[], $4::text[], $5::bigint[], $6::bigint[], $7::bigint[]
)
ON CONFLICT (task_key) DO UPDATE SET
    run_id = excluded.run_id, attempt = excluded.attempt, parts = excluded.parts, last_start = excluded.last_start,
    end_offset = excluded.end_offset, bytes = excluded.bytes;
