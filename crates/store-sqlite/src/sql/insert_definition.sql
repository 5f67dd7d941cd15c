-- Adds the definition of a new task.
INSERT INTO definitions (task_key, identity, documents) VALUES (?1, ?2, ?3);
