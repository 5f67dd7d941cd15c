-- Reads one row, to see that the database answers.
SELECT count(*) FROM (SELECT 1 FROM queues LIMIT 1);
