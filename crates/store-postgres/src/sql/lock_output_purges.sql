-- Finds deleted tasks whose pieces of output are to be purged.
SELECT task_key FROM taskqueue.output_purges LIMIT $1 FOR UPDATE SKIP LOCKED;
