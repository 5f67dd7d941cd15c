-- Loads all pieces of the output of tasks.
SELECT task_key, start, bytes
FROM taskqueue.output_pieces
WHERE task_key = ANY($1)
ORDER BY task_key, start;
