-- Gives tasks the same args: a bulk update sends the value once.
UPDATE taskqueue.definitions SET args = $2 WHERE task_key = ANY($1);
