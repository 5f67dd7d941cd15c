-- A PostgreSQL schema as the released schema version 7 had it, with a task in every state (upgrades.rs).
CREATE SCHEMA taskqueue;
CREATE TABLE taskqueue.migrations (version bigint NOT NULL PRIMARY KEY, name text NOT NULL, checksum text NOT NULL);

CREATE SEQUENCE taskqueue.numbers AS bigint INCREMENT BY 1024 START WITH 1024;

CREATE TABLE taskqueue.queues (
    queue_key  bigint NOT NULL PRIMARY KEY,
    held_until bigint NOT NULL DEFAULT 0,
    name       text COLLATE "C" NOT NULL UNIQUE
) WITH (fillfactor = 50);

CREATE TABLE taskqueue.tasks (
    task_key         bigint NOT NULL PRIMARY KEY,
    queue_key        bigint NOT NULL,
    created_at       bigint NOT NULL,
    priority         bigint NOT NULL,
    pending_seq      bigint NOT NULL,
    attempt          bigint NOT NULL,
    max_attempts     bigint NOT NULL,
    updated_at       bigint NOT NULL,
    definition_bytes bigint NOT NULL,
    started_at       bigint,
    finished_at      bigint,
    lease_expires_at bigint,
    id               text COLLATE "C" NOT NULL,
    status           text COLLATE "C" NOT NULL,
    routes           text COLLATE "C" NOT NULL,
    last_route       text COLLATE "C",
    run_id           text COLLATE "C",
    finished_run_id  text COLLATE "C",
    finished_run_end text COLLATE "C",
    name             text COLLATE "C"
) WITH (fillfactor = 50);
CREATE UNIQUE INDEX tasks_by_id ON taskqueue.tasks (queue_key, id);
CREATE INDEX tasks_by_creation ON taskqueue.tasks (queue_key, created_at, id);

CREATE TABLE taskqueue.definitions (
    task_key bigint NOT NULL PRIMARY KEY,
    identity bytea NOT NULL,
    args     text COLLATE "C" NOT NULL,
    metadata text COLLATE "C" NOT NULL
);

CREATE TABLE taskqueue.outcomes (
    task_key          bigint NOT NULL PRIMARY KEY,
    result            text COLLATE "C",
    error             text COLLATE "C",
    error_occurred_at bigint,
    error_attempt     bigint,
    error_run_id      text COLLATE "C"
);

CREATE TABLE taskqueue.ready (
    queue_key   bigint NOT NULL,
    priority    bigint NOT NULL,
    pending_seq bigint NOT NULL,
    task_key    bigint NOT NULL,
    route       text COLLATE "C" NOT NULL
) WITH (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0
);
CREATE INDEX ready_in_order ON taskqueue.ready (queue_key, route, priority DESC, pending_seq);

CREATE TABLE taskqueue.running (
    task_key bigint NOT NULL PRIMARY KEY
) WITH (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0
);

CREATE TABLE taskqueue.runs (
    run_id   text COLLATE "C" NOT NULL PRIMARY KEY,
    task_key bigint NOT NULL
);
CREATE INDEX runs_by_task ON taskqueue.runs (task_key);

CREATE TABLE taskqueue.tally (
    queue_key bigint NOT NULL,
    shard     smallint NOT NULL,
    routes    text COLLATE "C" NOT NULL,
    status    text COLLATE "C" NOT NULL,
    tasks     bigint NOT NULL,
    digest    bytea NOT NULL GENERATED ALWAYS AS (sha256(decode(replace(routes, '\', '\\'), 'escape'))) STORED,
    PRIMARY KEY (queue_key, digest, status, shard)
) WITH (
    fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0
);

CREATE TABLE taskqueue.observations (
    queue_key    bigint NOT NULL,
    last_seen_at bigint NOT NULL,
    expires_at   bigint NOT NULL,
    id           text COLLATE "C" NOT NULL,
    route        text COLLATE "C" NOT NULL,
    status       text COLLATE "C" NOT NULL,
    task_id      text COLLATE "C",
    metadata     text COLLATE "C" NOT NULL,
    PRIMARY KEY (queue_key, id)
) WITH (fillfactor = 50);

CREATE TABLE taskqueue.purges (
    queue_key bigint NOT NULL PRIMARY KEY
);

CREATE TABLE taskqueue.clock (
    one           smallint NOT NULL PRIMARY KEY CHECK (one = 1),
    offset_micros bigint NOT NULL,
    last_scan_at  bigint
) WITH (fillfactor = 10);
INSERT INTO taskqueue.clock (one, offset_micros) VALUES (1, 0);
INSERT INTO taskqueue.migrations VALUES (1, 'initial', 'b4f1bb02965825092584d239732bad8d3d1cfb47956e6aace746e095475b5e60');
ALTER TABLE taskqueue.runs ADD COLUMN kept_until bigint;
CREATE INDEX runs_by_kept_until ON taskqueue.runs (kept_until, run_id) WHERE kept_until IS NOT NULL;

ALTER TABLE taskqueue.purges ADD COLUMN kept_until bigint;

ALTER TABLE taskqueue.clock ADD COLUMN ahead_since bigint;
INSERT INTO taskqueue.migrations VALUES (2, 'deleted_runs_and_clock', '544dbb2290e7866296527ba6275ff14b0850080c6a235fa966f444d8066a9abd');
ALTER TABLE taskqueue.outcomes ADD COLUMN last_run_attempt bigint;
ALTER TABLE taskqueue.outcomes ADD COLUMN last_run_worker text COLLATE "C";
INSERT INTO taskqueue.migrations VALUES (3, 'last_runs', '2e31971a141a474baf58c7b90afe8bdb71180f8a1ee64977763fdcdc1788ae98');
CREATE TABLE taskqueue.unsuccessful (
    task_key  bigint NOT NULL PRIMARY KEY,
    queue_key bigint NOT NULL,
    status    text COLLATE "C" NOT NULL
);
INSERT INTO taskqueue.unsuccessful (task_key, queue_key, status)
SELECT task_key, queue_key, status FROM taskqueue.tasks WHERE status IN ('failed', 'cancelled');
CREATE INDEX unsuccessful_by_status ON taskqueue.unsuccessful (queue_key, status);
INSERT INTO taskqueue.migrations VALUES (4, 'unsuccessful_tasks', '5d9c3e87475cc60195d61fba7a809a16a9394544e215d73e205434f3dc534be5');

ALTER TABLE taskqueue.tasks ADD COLUMN progress_bytes bigint;

ALTER TABLE taskqueue.outcomes ADD COLUMN progress text COLLATE "C";
ALTER TABLE taskqueue.outcomes ADD COLUMN progress_updated_at bigint;
ALTER TABLE taskqueue.outcomes ADD COLUMN progress_attempt bigint;
ALTER TABLE taskqueue.outcomes SET (fillfactor = 80);

ALTER TABLE taskqueue.observations ADD COLUMN telemetry text COLLATE "C";
ALTER TABLE taskqueue.observations ADD COLUMN telemetry_updated_at bigint;

CREATE TABLE taskqueue.outputs (
    task_key   bigint NOT NULL PRIMARY KEY,
    attempt    bigint NOT NULL,
    end_offset bigint NOT NULL,
    bytes      bigint NOT NULL,
    last_start bigint NOT NULL,
    run_id     text COLLATE "C" NOT NULL,
    parts      text COLLATE "C" NOT NULL
) WITH (
    fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0
);

CREATE TABLE taskqueue.output_pieces (
    task_key bigint NOT NULL,
    start    bigint NOT NULL,
    bytes    bytea NOT NULL,
    PRIMARY KEY (task_key, start)
) WITH (
    autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0
);
ALTER TABLE taskqueue.output_pieces ALTER COLUMN bytes SET STORAGE PLAIN;

CREATE TABLE taskqueue.output_purges (
    task_key bigint NOT NULL PRIMARY KEY
);
INSERT INTO taskqueue.migrations VALUES (5, 'progress_and_output', '7aeb94999e29adc531bbcc5ef82aaeedb8a0ca3e174e1ec71a058cb377275bb3');

CREATE TABLE taskqueue.activity (
    queue_key    bigint NOT NULL REFERENCES taskqueue.queues ON DELETE CASCADE,
    unit_seconds bigint NOT NULL,
    start_at     bigint NOT NULL,
    process      bigint NOT NULL,
    counted      bytea NOT NULL,
    PRIMARY KEY (queue_key, unit_seconds, start_at, process)
) WITH (fillfactor = 50);
CREATE INDEX activity_by_start ON taskqueue.activity (unit_seconds, start_at);

CREATE TABLE taskqueue.activity_since (
    one   smallint NOT NULL PRIMARY KEY CHECK (one = 1),
    since bigint NOT NULL
);
INSERT INTO taskqueue.migrations VALUES (6, 'activity', '8c89fa2a592ef257269f9e220e8a975aa9f5f461642e905776410b280caa256d');

CREATE TABLE taskqueue.installation_secret (
    one    smallint NOT NULL PRIMARY KEY CHECK (one = 1),
    secret bytea NOT NULL CHECK (length(secret) = 32)
);
INSERT INTO taskqueue.migrations VALUES (7, 'installation_secret', '2bdad08777cc4f3582bd9e7116ea2715896c79a82336b004030721fee531d557');
INSERT INTO taskqueue.queues (queue_key, name) VALUES (1, 'q'), (2, 'empty');
INSERT INTO taskqueue.purges (queue_key) VALUES (3);
SELECT setval('taskqueue.numbers', 2048);
INSERT INTO taskqueue.tasks (task_key, queue_key, created_at, priority, pending_seq, attempt, max_attempts, updated_at, definition_bytes, started_at, finished_at, lease_expires_at, id, status, routes, last_route, run_id, finished_run_id, finished_run_end, name)
VALUES (1, 1, 1767225601000000, 5, 1, 0, 3, 1767225601000000, 132, NULL, NULL, NULL, 't_upgraded0001', 'pending', '["cpu","gpu"]', NULL, NULL, NULL, NULL, 'first');
INSERT INTO taskqueue.definitions VALUES (1, '\x826fe820dddb49e6d23d40bc63080042ed6221d29b4137062841f35bd7156f0c', '{"lr":0.1,"seed":7}', '{"owner":"é"}');
INSERT INTO taskqueue.ready (queue_key, priority, pending_seq, task_key, route) VALUES (1, 5, 1, 1, 'cpu');
INSERT INTO taskqueue.ready (queue_key, priority, pending_seq, task_key, route) VALUES (1, 5, 1, 1, 'gpu');
INSERT INTO taskqueue.tasks (task_key, queue_key, created_at, priority, pending_seq, attempt, max_attempts, updated_at, definition_bytes, started_at, finished_at, lease_expires_at, id, status, routes, last_route, run_id, finished_run_id, finished_run_end, name)
VALUES (2, 1, 1767225602000000, 0, 2, 1, 3, 1767225700000000, 98, 1767225700000000, NULL, 1767226000000000, 't_upgraded0002', 'running', '["default"]', 'default', 'r_upgraded0002', NULL, NULL, NULL);
INSERT INTO taskqueue.definitions VALUES (2, '\x2cf01ac1aeb51937ad8249d2a21fd616b11d5ec5798b7354147f9595f87ba40c', '{}', '{}');
INSERT INTO taskqueue.outcomes (task_key, result, error, error_occurred_at, error_attempt, error_run_id) VALUES (2, NULL, NULL, NULL, NULL, NULL);
UPDATE taskqueue.outcomes SET last_run_attempt = 1, last_run_worker = '{"host":"gpu-3"}' WHERE task_key = 2;
INSERT INTO taskqueue.running VALUES (2);
INSERT INTO taskqueue.tasks (task_key, queue_key, created_at, priority, pending_seq, attempt, max_attempts, updated_at, definition_bytes, started_at, finished_at, lease_expires_at, id, status, routes, last_route, run_id, finished_run_id, finished_run_end, name)
VALUES (3, 1, 1767225603000000, 0, 3, 1, 3, 1767225710000000, 98, 1767225700000000, 1767225710000000, NULL, 't_upgraded0003', 'succeeded', '["default"]', 'default', NULL, 'r_upgraded0003', 'complete', NULL);
INSERT INTO taskqueue.definitions VALUES (3, '\x2cf01ac1aeb51937ad8249d2a21fd616b11d5ec5798b7354147f9595f87ba40c', '{}', '{}');
INSERT INTO taskqueue.outcomes (task_key, result, error, error_occurred_at, error_attempt, error_run_id) VALUES (3, '{"loss":0.25}', NULL, NULL, NULL, NULL);
UPDATE taskqueue.outcomes SET last_run_attempt = 1, last_run_worker = '{"host":"gpu-4"}' WHERE task_key = 3;
INSERT INTO taskqueue.tasks (task_key, queue_key, created_at, priority, pending_seq, attempt, max_attempts, updated_at, definition_bytes, started_at, finished_at, lease_expires_at, id, status, routes, last_route, run_id, finished_run_id, finished_run_end, name)
VALUES (4, 1, 1767225604000000, 0, 4, 3, 3, 1767225720000000, 98, 1767225700000000, 1767225720000000, NULL, 't_upgraded0004', 'failed', '["default"]', 'default', NULL, 'r_upgraded0004', 'fail', NULL);
INSERT INTO taskqueue.definitions VALUES (4, '\x2cf01ac1aeb51937ad8249d2a21fd616b11d5ec5798b7354147f9595f87ba40c', '{}', '{}');
INSERT INTO taskqueue.outcomes (task_key, result, error, error_occurred_at, error_attempt, error_run_id) VALUES (4, NULL, '["ValueError","no \"good\"","line 1\nline 2"]', 1767225720000000, 3, 'r_upgraded0004');
INSERT INTO taskqueue.unsuccessful VALUES (4, 1, 'failed');
INSERT INTO taskqueue.tasks (task_key, queue_key, created_at, priority, pending_seq, attempt, max_attempts, updated_at, definition_bytes, started_at, finished_at, lease_expires_at, id, status, routes, last_route, run_id, finished_run_id, finished_run_end, name)
VALUES (5, 1, 1767225605000000, 0, 5, 0, 3, 1767225730000000, 98, NULL, NULL, NULL, 't_upgraded0005', 'cancelled', '["default"]', NULL, NULL, NULL, NULL, NULL);
INSERT INTO taskqueue.definitions VALUES (5, '\x2cf01ac1aeb51937ad8249d2a21fd616b11d5ec5798b7354147f9595f87ba40c', '{}', '{}');
INSERT INTO taskqueue.unsuccessful VALUES (5, 1, 'cancelled');
INSERT INTO taskqueue.tasks (task_key, queue_key, created_at, priority, pending_seq, attempt, max_attempts, updated_at, definition_bytes, started_at, finished_at, lease_expires_at, id, status, routes, last_route, run_id, finished_run_id, finished_run_end, name)
VALUES (6, 1, 1767225606000000, 0, 9, 0, 3, 1767225740000000, 98, 1767225700000000, 1767225740000000, NULL, 't_upgraded0006', 'pending', '["default"]', 'default', NULL, 'r_upgraded0006', 'unclaim', NULL);
INSERT INTO taskqueue.definitions VALUES (6, '\x2cf01ac1aeb51937ad8249d2a21fd616b11d5ec5798b7354147f9595f87ba40c', '{}', '{}');
INSERT INTO taskqueue.ready (queue_key, priority, pending_seq, task_key, route) VALUES (1, 0, 9, 6, 'default');
INSERT INTO taskqueue.tasks (task_key, queue_key, created_at, priority, pending_seq, attempt, max_attempts, updated_at, definition_bytes, started_at, finished_at, lease_expires_at, id, status, routes, last_route, run_id, finished_run_id, finished_run_end, name)
VALUES (7, 3, 1767225607000000, 0, 7, 1, 3, 1767225710000000, 114, 1767225700000000, 1767225710000000, NULL, 't_upgraded0007', 'succeeded', '["default"]', 'default', NULL, 'r_upgraded0007', 'complete', 'of a deleted queue');
INSERT INTO taskqueue.definitions VALUES (7, '\x65dd878a959dccef6434767da0b1d534b9333cd8a9d90a1d83e263833418bdc1', '{}', '{}');
INSERT INTO taskqueue.runs (run_id, task_key) VALUES ('r_upgraded0002', 2);
INSERT INTO taskqueue.runs (run_id, task_key) VALUES ('r_upgraded0003', 3);
INSERT INTO taskqueue.runs (run_id, task_key) VALUES ('r_upgraded0004', 4);
INSERT INTO taskqueue.runs (run_id, task_key) VALUES ('r_upgraded0006', 6);
INSERT INTO taskqueue.runs (run_id, task_key) VALUES ('r_upgraded0007', 7);
INSERT INTO taskqueue.runs (run_id, task_key) VALUES ('r_upgraded0061', 6);
INSERT INTO taskqueue.runs (run_id, task_key) VALUES ('r_upgraded0041', 4);
INSERT INTO taskqueue.runs (run_id, task_key) VALUES ('r_upgraded0042', 4);
INSERT INTO taskqueue.runs (run_id, task_key, kept_until) VALUES ('r_upgraded0099', 0, 1767312000000000);
INSERT INTO taskqueue.tally (queue_key, shard, routes, status, tasks) VALUES (1, 0, '["cpu","gpu"]', 'pending', 2), (1, 1, '["cpu","gpu"]', 'pending', -1);
INSERT INTO taskqueue.tally (queue_key, shard, routes, status, tasks) VALUES (1, 0, '["default"]', 'cancelled', 2), (1, 1, '["default"]', 'cancelled', -1);
INSERT INTO taskqueue.tally (queue_key, shard, routes, status, tasks) VALUES (1, 0, '["default"]', 'failed', 2), (1, 1, '["default"]', 'failed', -1);
INSERT INTO taskqueue.tally (queue_key, shard, routes, status, tasks) VALUES (1, 0, '["default"]', 'pending', 2), (1, 1, '["default"]', 'pending', -1);
INSERT INTO taskqueue.tally (queue_key, shard, routes, status, tasks) VALUES (1, 0, '["default"]', 'running', 2), (1, 1, '["default"]', 'running', -1);
INSERT INTO taskqueue.tally (queue_key, shard, routes, status, tasks) VALUES (1, 0, '["default"]', 'succeeded', 2), (1, 1, '["default"]', 'succeeded', -1);
INSERT INTO taskqueue.observations (queue_key, last_seen_at, expires_at, id, route, status, task_id, metadata) VALUES (1, 1767225750000000, 1767226050000000, 'w_upgraded0001', 'default', 'busy', 't_upgraded0002', '{"host":"gpu-3"}');
UPDATE taskqueue.clock SET last_scan_at = 1767225750000000;
UPDATE taskqueue.outcomes SET progress = '{"step":3}', progress_updated_at = 1767225750000000, progress_attempt = 1 WHERE task_key = 2;
UPDATE taskqueue.tasks SET progress_bytes = 10 WHERE task_key = 2;
UPDATE taskqueue.observations SET telemetry = '{"cpu":1}', telemetry_updated_at = 1767225750000000;
INSERT INTO taskqueue.outputs (task_key, attempt, end_offset, bytes, last_start, run_id, parts) VALUES (2, 1, 10, 7, 3, 'r_upgraded0002', '3-10');
INSERT INTO taskqueue.output_pieces VALUES (2, 3, 'epoch 3');
INSERT INTO taskqueue.activity_since VALUES (1, 1767225600000000);
INSERT INTO taskqueue.installation_secret VALUES (1, '\x000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f');
