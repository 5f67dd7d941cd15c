-- Gives tasks the same metadata: a bulk update sends the value once.
UPDATE taskqueue.definitions SET metadata = $2 WHERE task_key = ANY($1);
