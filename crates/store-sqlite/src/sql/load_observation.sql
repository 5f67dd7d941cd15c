-- Loads the observation of a worker, expired or not.
SELECT {observation_columns} FROM observations WHERE queue_key = ?1 AND id = ?2;
