-- Lists all queues by name. By code point: BINARY is the default collation.
SELECT name FROM queues ORDER BY name;
