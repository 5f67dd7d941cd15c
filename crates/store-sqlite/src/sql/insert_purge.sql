INSERT INTO purges (queue_key, kept_until) VALUES (?1, ?2);
