-- Times are microseconds since 1970. JSON is the canonical text that the rules produced.
--
-- A task is three rows, laid out for reading (docs/decisions/0043). What SQL needs of it has a column of its own; everything else
-- that only the program reads is packed into one column of each table (rows/packed_head.rs, packed_documents.rs,
-- packed_outcome.rs). `tasks` is narrow and holds what actions change, so that a claim or a report rewrites some hundred bytes;
-- `definitions` holds the heavy JSON that only creation and update touch; `outcomes` exists only for tasks that have a result, an
-- error, a last run or progress. No index but that of unsuccessful tasks contains a column that an action changes: claims find
-- their task by the order that the writer keeps in memory, so a claim or a completion touches one B-tree.

CREATE TABLE queues (
    -- AUTOINCREMENT: the key of a deleted queue is never given again, so that nothing of an earlier queue of the
    -- same name (cursors, rows that are still being purged) can be mistaken for the new one's.
    queue_key INTEGER PRIMARY KEY AUTOINCREMENT,
    name      TEXT NOT NULL UNIQUE
) STRICT;

-- The settings of queues that have other ones than the default, as JSON.
CREATE TABLE queue_settings (
    queue_key INTEGER PRIMARY KEY,
    settings  TEXT NOT NULL
) STRICT;

-- Deleted queues whose tasks are still being removed, a few at a time.
CREATE TABLE purges (
    queue_key  INTEGER PRIMARY KEY,
    -- Until when the run ids of the queue's tasks stay used.
    kept_until INTEGER NOT NULL
) STRICT;

CREATE TABLE tasks (
    task_key    INTEGER PRIMARY KEY,
    queue_key   INTEGER NOT NULL,
    id          TEXT NOT NULL,
    created_at  INTEGER NOT NULL,
    status      TEXT NOT NULL,
    -- The own key of a task that has a row in `outcomes`, so that nobody looks for one where there is none.
    outcome_key INTEGER,
    packed      BLOB NOT NULL,
    name        TEXT
) STRICT;
CREATE UNIQUE INDEX tasks_by_id ON tasks (queue_key, id);
CREATE INDEX tasks_by_creation ON tasks (queue_key, created_at, id);
-- In most queues few tasks end without success, and a list or count of them must not cost what all tasks of the queue cost
-- (docs/decisions/0004). A task enters this index when it fails for good or is cancelled: creations, claims and completions write
-- nothing here.
CREATE INDEX unsuccessful_tasks ON tasks (queue_key, status, created_at, id) WHERE status IN ('failed', 'cancelled');

CREATE TABLE definitions (
    task_key  INTEGER PRIMARY KEY,
    identity  BLOB NOT NULL,
    documents BLOB NOT NULL
) STRICT;

CREATE TABLE outcomes (
    task_key INTEGER PRIMARY KEY,
    outcome  BLOB NOT NULL
) STRICT;

-- Which bytes of the output of a task are kept, and of which run (docs/decisions/0048). Only tasks that have output have a row.
CREATE TABLE outputs (
    task_key INTEGER PRIMARY KEY,
    packed   BLOB NOT NULL
) STRICT;

-- The bytes. Those of a piece follow each other, and no two pieces of a task have the same byte. The first piece may begin with
-- bytes that are no longer kept.
CREATE TABLE output_pieces (
    piece_key INTEGER PRIMARY KEY,
    task_key  INTEGER NOT NULL,
    start     INTEGER NOT NULL,
    bytes     BLOB NOT NULL
) STRICT;
CREATE UNIQUE INDEX output_pieces_by_start ON output_pieces (task_key, start);

-- Runs of existing tasks that `tasks` has no room for any more: neither active nor the latest finished one.
CREATE TABLE past_runs (
    task_key INTEGER NOT NULL,
    run_id   TEXT NOT NULL,
    PRIMARY KEY (task_key, run_id)
) STRICT, WITHOUT ROWID;

-- Run ids of deleted tasks, which stay used up for a while. In the order in which they are forgotten, so that forgetting
-- some is a walk from the beginning; whether an id is here is known from memory.
CREATE TABLE deleted_runs (
    kept_until INTEGER NOT NULL,
    run_id     TEXT NOT NULL,
    PRIMARY KEY (kept_until, run_id)
) STRICT, WITHOUT ROWID;

-- How many tasks a queue has for each set of routes and each status, and how many of them are archived. Kept beside the rows:
-- counts that select by nothing but the status are read here, whatever the number of tasks.
CREATE TABLE tally (
    queue_key INTEGER NOT NULL,
    routes    TEXT NOT NULL,
    status    TEXT NOT NULL,
    tasks     INTEGER NOT NULL,
    archived  INTEGER NOT NULL,
    PRIMARY KEY (queue_key, routes, status)
) STRICT, WITHOUT ROWID;

-- Which task waits for which (docs/decisions/0063): the id of the dependency, because it may not exist yet, and the key of the task
-- that waits. `state` is what the dependency was to it when that was noted last, as its place in `DependencyState::ALL`.
CREATE TABLE dependencies (
    queue_key  INTEGER NOT NULL,
    dependency TEXT NOT NULL,
    task_key   INTEGER NOT NULL,
    state      INTEGER NOT NULL,
    PRIMARY KEY (queue_key, dependency, task_key)
) STRICT, WITHOUT ROWID;

-- Dependencies whose dependents are to be looked at again, those behind `after_key`.
CREATE TABLE unsettled (
    queue_key  INTEGER NOT NULL,
    dependency TEXT NOT NULL,
    after_key  INTEGER,
    PRIMARY KEY (queue_key, dependency)
) STRICT, WITHOUT ROWID;

-- Tasks that have ended and that their queue keeps for a limited time (docs/decisions/0064). It may name tasks that changed since.
CREATE TABLE ended (
    queue_key INTEGER NOT NULL,
    status    TEXT NOT NULL,
    ended_at  INTEGER NOT NULL,
    task_key  INTEGER NOT NULL,
    PRIMARY KEY (queue_key, status, ended_at, task_key)
) STRICT, WITHOUT ROWID;

-- Queues that got such a setting, and whose tasks are read once, in the order of their creation, to find those that had ended before.
-- Those up to this one are done.
CREATE TABLE ended_reads (
    queue_key        INTEGER PRIMARY KEY,
    after_created_at INTEGER NOT NULL,
    after_id         TEXT NOT NULL
) STRICT;

CREATE TABLE observations (
    queue_key            INTEGER NOT NULL,
    id                   TEXT NOT NULL,
    route                TEXT NOT NULL,
    status               TEXT NOT NULL,
    task_id              TEXT,
    last_seen_at         INTEGER NOT NULL,
    expires_at           INTEGER NOT NULL,
    metadata             TEXT NOT NULL,
    telemetry            TEXT,
    telemetry_updated_at INTEGER,
    PRIMARY KEY (queue_key, id)
) STRICT, WITHOUT ROWID;

-- The next four tables let a start load the pending and running tasks alone, and a claim check a run id without all of them in
-- memory (docs/decisions/0002). Everything in them is derived from `tasks`, `past_runs` and `deleted_runs`. Where they are behind,
-- after a transfer, or damaged, a start reads all tasks once and writes them.

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

-- What happened to the tasks of each queue, counted by minute and by hour (docs/decisions/0059): what a process counted in a span.
-- `unit` is the length of the span and `start` its beginning, in seconds. Statistics: nothing else depends on them.
CREATE TABLE activity (
    queue_key INTEGER NOT NULL,
    unit      INTEGER NOT NULL,
    start     INTEGER NOT NULL,
    process   INTEGER NOT NULL,
    activity  BLOB NOT NULL,
    PRIMARY KEY (queue_key, unit, start, process)
) STRICT, WITHOUT ROWID;
-- For what is too old. Saving a span again does not touch it.
CREATE INDEX activity_by_start ON activity (unit, start);

-- From when on activity is known. One row, which the first server writes that opens the file.
CREATE TABLE activity_since (
    one   INTEGER PRIMARY KEY CHECK (one = 1),
    since INTEGER NOT NULL
) STRICT;

-- When the leases were last scanned: a longer pause is an outage. One row, or none before the first scan.
CREATE TABLE lease_scans (
    one     INTEGER PRIMARY KEY CHECK (one = 1),
    last_at INTEGER NOT NULL
) STRICT;

-- The secret that all servers of this installation share (docs/decisions/0061). One row, which the first server writes that opens
-- the file.
CREATE TABLE installation_secret (
    one    INTEGER PRIMARY KEY CHECK (one = 1),
    secret BLOB NOT NULL CHECK (length(secret) = 32)
) STRICT;
