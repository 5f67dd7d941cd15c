-- Adds a queue with the key that it has in the other database.
INSERT INTO queues (queue_key, name) VALUES (?1, ?2);
