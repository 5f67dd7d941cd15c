-- What tasks wait for, the settings of queues, and which tasks have ended where that matters (docs/decisions/0063 and 0064). What a
-- task itself says of that is in `tasks.packed`.

-- Which task waits for which: the id of the dependency, because it may not exist yet, and the key of the task that waits. `state`
-- is what the dependency was to it when that was noted last, as its place in `DependencyState::ALL`.
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

-- The settings of queues that have other ones than the default, as JSON.
CREATE TABLE queue_settings (
    queue_key INTEGER PRIMARY KEY,
    settings  TEXT NOT NULL
) STRICT;

-- Tasks that have ended and that their queue keeps for a limited time. It may name tasks that changed since.
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

-- How many of the tasks that are counted are archived.
ALTER TABLE tally ADD COLUMN archived INTEGER NOT NULL DEFAULT 0;
