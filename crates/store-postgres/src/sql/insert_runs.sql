-- A run id that another server has used meanwhile makes this fail; the batch is then begun anew and sees it. A task that
-- was deleted by the same batch has its ids kept.
INSERT INTO taskqueue.runs (run_id, task_key, kept_until) SELECT * FROM unnest($1::text[], $2::bigint[], $3::bigint[]);
