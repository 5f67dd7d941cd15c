SELECT queue_key FROM purges LIMIT 1;
