-- Counts the tasks of a queue for each state, archived ones too.
SELECT tally.status, sum(tally.tasks)::bigint AS tasks
FROM taskqueue.tally
WHERE tally.queue_key = $1
GROUP BY tally.status;
