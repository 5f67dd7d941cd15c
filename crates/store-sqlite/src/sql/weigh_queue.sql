-- How many tasks a queue has, and how many there are in all.
SELECT coalesce(sum(tasks) FILTER (WHERE queue_key = ?1), 0), coalesce(sum(tasks), 0) FROM tally;
