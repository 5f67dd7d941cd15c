-- How far runs are, what workers measure, and what runs print. Adding columns without a default rewrites no row.

-- The size of the progress; null without one. No index contains it, so that a report of progress is a HOT update.
ALTER TABLE taskqueue.tasks ADD COLUMN progress_bytes bigint;

ALTER TABLE taskqueue.outcomes ADD COLUMN progress text COLLATE "C";
ALTER TABLE taskqueue.outcomes ADD COLUMN progress_updated_at bigint;
ALTER TABLE taskqueue.outcomes ADD COLUMN progress_attempt bigint;
-- From now on rows of running tasks change each second: some of each new page stays free for their next version.
ALTER TABLE taskqueue.outcomes SET (fillfactor = 80);

ALTER TABLE taskqueue.observations ADD COLUMN telemetry text COLLATE "C";
ALTER TABLE taskqueue.observations ADD COLUMN telemetry_updated_at bigint;

-- One row for each task that keeps output, without the bytes. It changes with each send.
CREATE TABLE taskqueue.outputs (
    task_key   bigint NOT NULL PRIMARY KEY,
    attempt    bigint NOT NULL,
    -- The offset behind the last byte.
    end_offset bigint NOT NULL,
    -- The number of bytes that are kept.
    bytes      bigint NOT NULL,
    -- Where the last piece begins.
    last_start bigint NOT NULL,
    run_id     text COLLATE "C" NOT NULL,
    -- Which bytes are kept: start and end of each part, as `0-512 1024-2048`.
    parts      text COLLATE "C" NOT NULL
) WITH (
    fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0
);

-- The bytes. They are no text: output may hold U+0000, and a piece may end inside a character. Pieces do not overlap; bytes of
-- a piece before the first kept one do not count. A piece is never larger than what fits into a page, so that nothing is
-- compressed or moved elsewhere while it grows.
CREATE TABLE taskqueue.output_pieces (
    task_key bigint NOT NULL,
    start    bigint NOT NULL,
    bytes    bytea NOT NULL,
    PRIMARY KEY (task_key, start)
) WITH (
    autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0
);
ALTER TABLE taskqueue.output_pieces ALTER COLUMN bytes SET STORAGE PLAIN;

-- Deleted tasks whose pieces of output are still being removed, some at a time.
CREATE TABLE taskqueue.output_purges (
    task_key bigint NOT NULL PRIMARY KEY
);
