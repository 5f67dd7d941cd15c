-- The run ids of deleted tasks stay used up for a while: their rows stay in `runs`, with the time until which they are
-- kept. So the primary key goes on to keep them apart from new ones, over all servers.
ALTER TABLE taskqueue.runs ADD COLUMN kept_until bigint;
CREATE INDEX runs_by_kept_until ON taskqueue.runs (kept_until, run_id) WHERE kept_until IS NOT NULL;

-- Until when the run ids of the queue's tasks are kept. Nothing for a queue that was deleted before this was noted: then
-- it counts from the purge of each task.
ALTER TABLE taskqueue.purges ADD COLUMN kept_until bigint;

-- Since when the database's clock is ahead of the time of the service by more than an outage.
ALTER TABLE taskqueue.clock ADD COLUMN ahead_since bigint;
