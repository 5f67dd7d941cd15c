-- A run id that another server has used meanwhile makes this fail; the batch is then begun anew and sees it.
INSERT INTO taskqueue.runs (run_id, task_key) SELECT * FROM unnest($1::text[], $2::bigint[]);
