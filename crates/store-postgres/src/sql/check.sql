-- Reads one row, to see that the database answers.
SELECT count(*) FROM (SELECT 1 FROM taskqueue.queues LIMIT 1) AS one;
