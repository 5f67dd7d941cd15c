-- An SQLite database as the released schema version 1 had it, with a task in every state (upgrades.rs).
PRAGMA application_id = 1416850257;
BEGIN TRANSACTION;
CREATE TABLE definitions (
    task_key INTEGER PRIMARY KEY,
    identity BLOB NOT NULL,
    args     TEXT NOT NULL,
    metadata TEXT NOT NULL
) STRICT;
INSERT INTO "definitions" VALUES(1,X'826FE820DDDB49E6D23D40BC63080042ED6221D29B4137062841F35BD7156F0C','{"lr":0.1,"seed":7}','{"owner":"é"}');
INSERT INTO "definitions" VALUES(2,X'2CF01AC1AEB51937AD8249D2A21FD616B11D5EC5798B7354147F9595F87BA40C','{}','{}');
INSERT INTO "definitions" VALUES(3,X'2CF01AC1AEB51937AD8249D2A21FD616B11D5EC5798B7354147F9595F87BA40C','{}','{}');
INSERT INTO "definitions" VALUES(4,X'2CF01AC1AEB51937AD8249D2A21FD616B11D5EC5798B7354147F9595F87BA40C','{}','{}');
INSERT INTO "definitions" VALUES(5,X'2CF01AC1AEB51937AD8249D2A21FD616B11D5EC5798B7354147F9595F87BA40C','{}','{}');
INSERT INTO "definitions" VALUES(6,X'2CF01AC1AEB51937AD8249D2A21FD616B11D5EC5798B7354147F9595F87BA40C','{}','{}');
INSERT INTO "definitions" VALUES(7,X'65DD878A959DCCEF6434767DA0B1D534B9333CD8A9D90A1D83E263833418BDC1','{}','{}');
CREATE TABLE lease_scans (
    one     INTEGER PRIMARY KEY CHECK (one = 1),
    last_at INTEGER NOT NULL
) STRICT;
INSERT INTO "lease_scans" VALUES(1,1767225750000000);
CREATE TABLE migrations (
    version  INTEGER PRIMARY KEY,
    name     TEXT NOT NULL,
    checksum TEXT NOT NULL
) STRICT;
INSERT INTO "migrations" VALUES(1,'initial','8ffb63bef139e16633220ba4756f4b9d1ae8b5c337625c336ce38a5bf729f023');
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
INSERT INTO "observations" VALUES(1,'w_upgraded0001','default','busy','t_upgraded0002',1767225750000000,1767226050000000,'{"host":"gpu-3"}');
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
INSERT INTO "outcomes" VALUES(3,'{"loss":0.25}',NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "outcomes" VALUES(4,NULL,'ValueError','no "good"','line 1
line 2',1767225720000000,3,'r_upgraded0004');
CREATE TABLE past_runs (
    task_key INTEGER NOT NULL,
    run_id   TEXT NOT NULL,
    PRIMARY KEY (task_key, run_id)
) STRICT, WITHOUT ROWID;
INSERT INTO "past_runs" VALUES(4,'r_upgraded0041');
INSERT INTO "past_runs" VALUES(4,'r_upgraded0042');
INSERT INTO "past_runs" VALUES(6,'r_upgraded0061');
CREATE TABLE purges (
    queue_key INTEGER PRIMARY KEY
) STRICT;
INSERT INTO "purges" VALUES(3);
CREATE TABLE queues (
    -- AUTOINCREMENT: the key of a deleted queue is never given again, so that nothing of an earlier queue of the
    -- same name (cursors, rows that are still being purged) can be mistaken for the new one's.
    queue_key INTEGER PRIMARY KEY AUTOINCREMENT,
    name      TEXT NOT NULL UNIQUE
) STRICT;
INSERT INTO "queues" VALUES(1,'q');
INSERT INTO "queues" VALUES(2,'empty');
CREATE TABLE tally (
    queue_key INTEGER NOT NULL,
    routes    TEXT NOT NULL,
    status    TEXT NOT NULL,
    tasks     INTEGER NOT NULL,
    PRIMARY KEY (queue_key, routes, status)
) STRICT, WITHOUT ROWID;
INSERT INTO "tally" VALUES(1,'["cpu","gpu"]','pending',1);
INSERT INTO "tally" VALUES(1,'["default"]','cancelled',1);
INSERT INTO "tally" VALUES(1,'["default"]','failed',1);
INSERT INTO "tally" VALUES(1,'["default"]','pending',1);
INSERT INTO "tally" VALUES(1,'["default"]','running',1);
INSERT INTO "tally" VALUES(1,'["default"]','succeeded',1);
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
INSERT INTO "tasks" VALUES(1,1,'t_upgraded0001',1767225601000000,'pending',5,1,'["cpu","gpu"]',0,3,1767225601000000,NULL,NULL,NULL,NULL,NULL,NULL,NULL,132,'first');
INSERT INTO "tasks" VALUES(2,1,'t_upgraded0002',1767225602000000,'running',0,2,'["default"]',1,3,1767225700000000,1767225700000000,NULL,'default','r_upgraded0002',1767226000000000,NULL,NULL,98,NULL);
INSERT INTO "tasks" VALUES(3,1,'t_upgraded0003',1767225603000000,'succeeded',0,3,'["default"]',1,3,1767225710000000,1767225700000000,1767225710000000,'default',NULL,NULL,'r_upgraded0003','complete',98,NULL);
INSERT INTO "tasks" VALUES(4,1,'t_upgraded0004',1767225604000000,'failed',0,4,'["default"]',3,3,1767225720000000,1767225700000000,1767225720000000,'default',NULL,NULL,'r_upgraded0004','fail',98,NULL);
INSERT INTO "tasks" VALUES(5,1,'t_upgraded0005',1767225605000000,'cancelled',0,5,'["default"]',0,3,1767225730000000,NULL,NULL,NULL,NULL,NULL,NULL,NULL,98,NULL);
INSERT INTO "tasks" VALUES(6,1,'t_upgraded0006',1767225606000000,'pending',0,9,'["default"]',0,3,1767225740000000,1767225700000000,1767225740000000,'default',NULL,NULL,'r_upgraded0006','unclaim',98,NULL);
INSERT INTO "tasks" VALUES(7,3,'t_upgraded0007',1767225607000000,'succeeded',0,7,'["default"]',1,3,1767225710000000,1767225700000000,1767225710000000,'default',NULL,NULL,'r_upgraded0007','complete',114,'of a deleted queue');
CREATE UNIQUE INDEX tasks_by_id ON tasks (queue_key, id);
CREATE INDEX tasks_by_creation ON tasks (queue_key, created_at, id);
COMMIT;
UPDATE sqlite_sequence SET seq = 3 WHERE name = 'queues';
