-- A queue with the key that it had elsewhere.
INSERT INTO queues (queue_key, name) VALUES (?1, ?2);
