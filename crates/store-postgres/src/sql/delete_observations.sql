-- Deletes observations of workers.
DELETE FROM taskqueue.observations
USING unnest($1::bigint[], $2::text[]) AS gone (queue_key, id)
WHERE observations.queue_key = gone.queue_key AND observations.id = gone.id;
