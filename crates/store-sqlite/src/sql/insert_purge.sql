INSERT INTO purges (queue_key) VALUES (?1);
