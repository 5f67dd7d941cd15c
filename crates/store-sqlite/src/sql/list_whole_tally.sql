-- What the tally says of every queue that exists.
SELECT tally.queue_key, tally.status, sum(tally.tasks) AS tasks FROM tally GROUP BY tally.queue_key, tally.status;
