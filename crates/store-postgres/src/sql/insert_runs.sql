-- Adds run ids. It fails if another server has used one since; the batch is then begun again and sees it. The ids of a task
-- that the same batch has deleted stay used until the time $3.
INSERT INTO taskqueue.runs (run_id, task_key, kept_until) SELECT * FROM unnest($1::text[], $2::bigint[], $3::bigint[]);
