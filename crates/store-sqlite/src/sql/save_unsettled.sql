-- Notes that the dependents of a task behind a key are to be looked at again; all of them without one.
INSERT INTO unsettled (queue_key, dependency, after_key) VALUES (?1, ?2, ?3)
ON CONFLICT (queue_key, dependency) DO UPDATE SET after_key = excluded.after_key;
