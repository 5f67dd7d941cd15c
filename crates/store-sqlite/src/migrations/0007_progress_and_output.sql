-- What a run says while it runs (docs/decisions/0048 and 0049). How far it is lies in `outcomes.outcome`, and needs no column.
ALTER TABLE observations ADD COLUMN telemetry TEXT;
ALTER TABLE observations ADD COLUMN telemetry_updated_at INTEGER;

-- Which bytes of the output of a task are kept, and of which run. Only tasks that have output have a row.
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
