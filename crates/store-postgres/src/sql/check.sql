SELECT count(*) FROM (SELECT 1 FROM taskqueue.queues LIMIT 1) AS one;
