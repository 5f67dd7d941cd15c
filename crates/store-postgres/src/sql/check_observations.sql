-- Lists all observations of a queue, for a check.
SELECT {observation_columns} FROM taskqueue.observations WHERE queue_key = $1;
