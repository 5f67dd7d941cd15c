-- Loads the settings of queues that a transaction does not hold. Null where they are the default.
SELECT queue_key, settings FROM taskqueue.queues WHERE queue_key = ANY($1);
