-- Adds a queue.
INSERT INTO queues (name) VALUES (?1);
