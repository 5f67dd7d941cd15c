-- What lets a start load the pending and running tasks alone, and a claim check a run id without all of them in memory
-- (docs/decisions/0042). Everything here is derived from `tasks`, `past_runs` and `deleted_runs`. A file from before has
-- nothing of it: its first start reads all tasks once and writes it.

-- How far it was written. One row.
CREATE TABLE claim_index (
    one        INTEGER PRIMARY KEY CHECK (one = 1),
    -- `living_tasks` and `run_pages` know of the tasks up to this key. Keys behind it are read at a start.
    last_key   INTEGER NOT NULL,
    -- Runs that had ended before this time are in `run_pages`.
    flushed_at INTEGER NOT NULL,
    -- A time that is not before that of any task which a start does not read.
    latest_at  INTEGER NOT NULL
) STRICT;
INSERT INTO claim_index (one, last_key, flushed_at, latest_at) VALUES (1, 0, 0, 0);

-- A bit for each of 4,096 keys: set for every pending or running task, and for some that have ended since.
CREATE TABLE living_tasks (
    chunk INTEGER PRIMARY KEY,
    keys  BLOB NOT NULL
) STRICT;

-- Sorted sets of used run ids. One that covers `oldest` to `newest` holds what was written as the sets of these numbers.
CREATE TABLE run_segments (
    segment INTEGER PRIMARY KEY,
    oldest  INTEGER NOT NULL,
    newest  INTEGER NOT NULL,
    state   TEXT NOT NULL,
    pages   INTEGER NOT NULL,
    entries INTEGER NOT NULL
) STRICT;

-- Up to 400 run ids in ascending order. `page` is the number of the segment times 2^32, plus the number within it.
CREATE TABLE run_pages (
    page    INTEGER PRIMARY KEY,
    entries BLOB NOT NULL
) STRICT;
