-- What happened to the tasks of each queue, counted by minute and by hour. Each process has rows of its own, so that servers never
-- wait for each other's; readers add them up (docs/decisions/0059). Nothing else depends on it. A process writes its current rows
-- every few seconds: no index contains what changes, and half of each page is left free for the next version.
CREATE TABLE taskqueue.activity (
    -- Goes with its queue, also when a server deletes the queue that does not know this table.
    queue_key    bigint NOT NULL REFERENCES taskqueue.queues ON DELETE CASCADE,
    -- How long the counted time is: 60 or 3600.
    unit_seconds bigint NOT NULL,
    start_at     bigint NOT NULL,
    process      bigint NOT NULL,
    counted      bytea NOT NULL,
    PRIMARY KEY (queue_key, unit_seconds, start_at, process)
) WITH (fillfactor = 50);
-- For forgetting.
CREATE INDEX activity_by_start ON taskqueue.activity (unit_seconds, start_at);

-- From when on activity is known, in the time of the service. One row, which the first server writes that opens the database.
CREATE TABLE taskqueue.activity_since (
    one   smallint NOT NULL PRIMARY KEY CHECK (one = 1),
    since bigint NOT NULL
);
