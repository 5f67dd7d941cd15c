-- Run ids of deleted tasks, which stay used up for a while. In the order in which they are forgotten, so that forgetting
-- some is a walk from the beginning; whether an id is here is known from memory.
CREATE TABLE deleted_runs (
    kept_until INTEGER NOT NULL,
    run_id     TEXT NOT NULL,
    PRIMARY KEY (kept_until, run_id)
) STRICT, WITHOUT ROWID;

-- Until when the run ids of the queue's tasks are kept. Nothing for a queue that was deleted before this was noted: then
-- it counts from the purge of each task.
ALTER TABLE purges ADD COLUMN kept_until INTEGER;
