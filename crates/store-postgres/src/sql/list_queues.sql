-- Lists all queues by name. By code point: the column is COLLATE "C".
SELECT name FROM taskqueue.queues ORDER BY name;
