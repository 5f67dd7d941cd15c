-- For whoever needs a queue for itself alone: waits for everything that is under way in it.
SELECT queue_key, name FROM taskqueue.queues WHERE name = ANY($1) FOR UPDATE;
