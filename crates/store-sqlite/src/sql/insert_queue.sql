INSERT INTO queues (name) VALUES (?1);
