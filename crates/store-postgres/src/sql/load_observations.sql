-- Loads the observations of workers, expired or not.
SELECT {observation_columns}, observations.queue_key
FROM unnest($1::text[], $2::text[]) AS named (queue, id)
JOIN taskqueue.queues ON queues.name = named.queue
JOIN taskqueue.observations ON observations.queue_key = queues.queue_key AND observations.id = named.id;
