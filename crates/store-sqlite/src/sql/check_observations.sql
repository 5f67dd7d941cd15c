-- Lists all observations with the keys of their queues, for a check.
SELECT {observation_columns}, observations.queue_key FROM observations;
