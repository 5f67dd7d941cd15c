-- Sums the counts of every queue by status.
SELECT tally.queue_key, tally.status, sum(tally.tasks) AS tasks FROM tally GROUP BY tally.queue_key, tally.status;
