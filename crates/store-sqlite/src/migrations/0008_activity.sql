-- What happened to the tasks of each queue, counted by minute and by hour (docs/decisions/0059). Statistics: nothing else
-- depends on them.

-- What a process counted in a span. `unit` is the length of the span and `start` its beginning, in seconds.
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
