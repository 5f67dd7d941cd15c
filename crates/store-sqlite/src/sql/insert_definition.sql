-- Adds the definition of a new task.
INSERT INTO definitions (task_key, identity, args, metadata) VALUES (?1, ?2, ?3, ?4);
