-- One row for each task that ended without success. In most queues they are few, and a list or count of them must not cost
-- what all tasks of the queue cost. A table of its own: an index of `tasks` with the status in its columns or its condition
-- would end the HOT updates of claims and reports. A task enters it when it fails for good or is cancelled: creations, claims
-- and completions write nothing here.
CREATE TABLE taskqueue.unsuccessful (
    task_key  bigint NOT NULL PRIMARY KEY,
    queue_key bigint NOT NULL,
    status    text COLLATE "C" NOT NULL
);
INSERT INTO taskqueue.unsuccessful (task_key, queue_key, status)
SELECT task_key, queue_key, status FROM taskqueue.tasks WHERE status IN ('failed', 'cancelled');
CREATE INDEX unsuccessful_by_status ON taskqueue.unsuccessful (queue_key, status);
