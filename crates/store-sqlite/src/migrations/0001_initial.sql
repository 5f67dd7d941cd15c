-- A task is three rows. `tasks` is narrow and holds what actions change, so that a claim or a report rewrites some
-- hundred bytes; `definitions` holds the heavy JSON that only creation and update touch; `outcomes` exists only for
-- tasks that have a result or an error. No index contains a column that an action changes: claims find their task by
-- the order that the writer keeps in memory, so a claim or a completion touches one B-tree.
-- Times are microseconds since 1970. JSON is the canonical text that the rules produced.

CREATE TABLE queues (
    -- AUTOINCREMENT: the key of a deleted queue is never given again, so that nothing of an earlier queue of the
    -- same name (cursors, rows that are still being purged) can be mistaken for the new one's.
    queue_key INTEGER PRIMARY KEY AUTOINCREMENT,
    name      TEXT NOT NULL UNIQUE
) STRICT;

CREATE TABLE tasks (
    task_key         INTEGER PRIMARY KEY,
    queue_key        INTEGER NOT NULL,
    id               TEXT NOT NULL,
    created_at       INTEGER NOT NULL,
    status           TEXT NOT NULL,
    priority         INTEGER NOT NULL,
    pending_seq      INTEGER NOT NULL,
    routes           TEXT NOT NULL,
    attempt          INTEGER NOT NULL,
    max_attempts     INTEGER NOT NULL,
    updated_at       INTEGER NOT NULL,
    started_at       INTEGER,
    finished_at      INTEGER,
    last_route       TEXT,
    run_id           TEXT,
    lease_expires_at INTEGER,
    finished_run_id  TEXT,
    finished_run_end TEXT,
    definition_bytes INTEGER NOT NULL,
    name             TEXT
) STRICT;
CREATE UNIQUE INDEX tasks_by_id ON tasks (queue_key, id);
CREATE INDEX tasks_by_creation ON tasks (queue_key, created_at, id);

CREATE TABLE definitions (
    task_key INTEGER PRIMARY KEY,
    identity BLOB NOT NULL,
    args     TEXT NOT NULL,
    metadata TEXT NOT NULL
) STRICT;

CREATE TABLE outcomes (
    task_key          INTEGER PRIMARY KEY,
    result            TEXT,
    error_type        TEXT,
    error_message     TEXT,
    error_traceback   TEXT,
    error_occurred_at INTEGER,
    error_attempt     INTEGER,
    error_run_id      TEXT
) STRICT;

-- Runs of existing tasks that `tasks` has no room for any more: neither active nor the latest finished one.
CREATE TABLE past_runs (
    task_key INTEGER NOT NULL,
    run_id   TEXT NOT NULL,
    PRIMARY KEY (task_key, run_id)
) STRICT, WITHOUT ROWID;

-- How many tasks a queue has for each set of routes and each status, kept beside the rows: counts that select by
-- nothing but the status are read here, whatever the number of tasks.
CREATE TABLE tally (
    queue_key INTEGER NOT NULL,
    routes    TEXT NOT NULL,
    status    TEXT NOT NULL,
    tasks     INTEGER NOT NULL,
    PRIMARY KEY (queue_key, routes, status)
) STRICT, WITHOUT ROWID;

CREATE TABLE observations (
    queue_key    INTEGER NOT NULL,
    id           TEXT NOT NULL,
    route        TEXT NOT NULL,
    status       TEXT NOT NULL,
    task_id      TEXT,
    last_seen_at INTEGER NOT NULL,
    expires_at   INTEGER NOT NULL,
    metadata     TEXT NOT NULL,
    PRIMARY KEY (queue_key, id)
) STRICT, WITHOUT ROWID;

-- Deleted queues whose tasks are still being removed, a few at a time.
CREATE TABLE purges (
    queue_key INTEGER PRIMARY KEY
) STRICT;

-- When the leases were last scanned: a longer pause is an outage. One row, or none before the first scan.
CREATE TABLE lease_scans (
    one     INTEGER PRIMARY KEY CHECK (one = 1),
    last_at INTEGER NOT NULL
) STRICT;
