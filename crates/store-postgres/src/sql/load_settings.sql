-- Loads the settings of queues, for reads and for transactions that do not hold the queue. Null where they are the default.
SELECT queue_key, settings FROM taskqueue.queues WHERE queue_key = ANY($1);
