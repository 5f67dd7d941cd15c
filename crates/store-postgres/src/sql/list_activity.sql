-- Lists what all processes have saved of a queue, for spans of one unit that begin from $3 on and before $4.
SELECT start_at, process, counted
FROM taskqueue.activity
WHERE queue_key = $1 AND unit_seconds = $2 AND start_at >= $3 AND start_at < $4;
