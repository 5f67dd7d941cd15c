-- Adds queues.
INSERT INTO taskqueue.queues (queue_key, name) SELECT * FROM unnest($1::bigint[], $2::text[]);
