-- Adds tasks to the running ones.
INSERT INTO taskqueue.running (task_key) SELECT unnest($1::bigint[]);
