-- Tasks that ended without success, by state and creation. In most queues they are few, and a list or count of them must not
-- cost what all tasks of the queue cost. A task enters this index once, when it fails for good or is cancelled: creations,
-- claims and completions write nothing here.
CREATE INDEX unsuccessful_tasks ON tasks (queue_key, status, created_at, id) WHERE status IN ('failed', 'cancelled');
