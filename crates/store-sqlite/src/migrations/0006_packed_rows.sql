-- Rows laid out for reading (docs/decisions/0043). What SQL needs of a task keeps a column of its own; everything else that
-- only the program reads is packed into one column per table, so that SQLite decodes and hands over few columns for a task
-- instead of 25. The program copies the rows where the line below says so (migrate/packed_rows.rs), and it knows the
-- layout of the packed columns (rows/packed_head.rs, packed_documents.rs, packed_outcome.rs).
ALTER TABLE tasks RENAME TO unpacked_tasks;
ALTER TABLE definitions RENAME TO unpacked_definitions;
ALTER TABLE outcomes RENAME TO unpacked_outcomes;
DROP INDEX tasks_by_id;
DROP INDEX tasks_by_creation;
DROP INDEX unsuccessful_tasks;

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

CREATE TABLE definitions (
    task_key  INTEGER PRIMARY KEY,
    identity  BLOB NOT NULL,
    documents BLOB NOT NULL
) STRICT;

CREATE TABLE outcomes (
    task_key INTEGER PRIMARY KEY,
    outcome  BLOB NOT NULL
) STRICT;

-- The rows are copied here.

DROP TABLE unpacked_tasks;
DROP TABLE unpacked_definitions;
DROP TABLE unpacked_outcomes;
CREATE UNIQUE INDEX tasks_by_id ON tasks (queue_key, id);
CREATE INDEX tasks_by_creation ON tasks (queue_key, created_at, id);
CREATE INDEX unsuccessful_tasks ON tasks (queue_key, status, created_at, id) WHERE status IN ('failed', 'cancelled');
