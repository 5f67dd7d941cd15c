SELECT queue_key, kept_until FROM purges LIMIT 1;
