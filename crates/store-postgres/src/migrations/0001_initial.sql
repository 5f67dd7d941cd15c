-- A task is three rows. `tasks` is narrow and holds what actions change; `definitions` holds the heavy JSON that only
-- creation and update touch; `outcomes` exists only for tasks that have a result or an error.
-- Times are microseconds since 1970. JSON is the canonical text that the rules produced. Text orders by code point.
--
-- Why claims do not slow down:
-- * No index of `tasks` contains a column that an action changes, and half of each page is left free, so a claim and a
--   report are HOT updates: they write one page and no index, and the next visitor of the page removes the old version.
-- * What is claimable stands in `ready`, with one index that is the claim's order. A batch of claims walks it once. The
--   entries of claimed tasks stay at its head until they are vacuumed; readers mark them as dead on their way, so that a
--   page of some hundred dead entries costs a microsecond, and autovacuum is told to come early.
-- * Nothing is notified inside a write.

-- Queue keys, task keys and places in the pending order. One value is a block of 1024 numbers.
CREATE SEQUENCE taskqueue.numbers AS bigint INCREMENT BY 1024 START WITH 1024;

CREATE TABLE taskqueue.queues (
    -- Never given again, so that nothing of an earlier queue of the same name (cursors, rows that are still being
    -- purged) can be mistaken for the new one's.
    queue_key  bigint NOT NULL PRIMARY KEY,
    -- Until then nothing new begins in the queue, because somebody needs it for itself alone.
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
    -- Type, message and traceback as a JSON array: a string of PostgreSQL cannot hold U+0000, an escape can.
    error             text COLLATE "C",
    error_occurred_at bigint,
    error_attempt     bigint,
    error_run_id      text COLLATE "C"
);

-- One row for each route of a pending task. Found and deleted by its own index alone: the writer knows the values.
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

-- One row for each running task: as many as there are busy workers, so the lease scan reads all of them.
CREATE TABLE taskqueue.running (
    task_key bigint NOT NULL PRIMARY KEY
) WITH (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0
);

-- Every run id of a task that exists, active or not. The primary key is what makes a run id unique over all servers.
CREATE TABLE taskqueue.runs (
    run_id   text COLLATE "C" NOT NULL PRIMARY KEY,
    task_key bigint NOT NULL
);
CREATE INDEX runs_by_task ON taskqueue.runs (task_key);

-- How many tasks a queue has for each set of routes and each status, as the sum over the shards. Each writer has a
-- shard of its own, so that writers do not wait for each other's commit; a single shard may be below zero.
CREATE TABLE taskqueue.tally (
    queue_key bigint NOT NULL,
    shard     smallint NOT NULL,
    routes    text COLLATE "C" NOT NULL,
    status    text COLLATE "C" NOT NULL,
    tasks     bigint NOT NULL,
    -- Stands for the routes in the key: an entry of an index has 2,704 bytes at most, the routes of a task a million. The
    -- decoding gives the bytes of the text as they are; what other functions give depends on settings, which is not
    -- allowed here.
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

-- Deleted queues whose tasks are still being removed, a few at a time.
CREATE TABLE taskqueue.purges (
    queue_key bigint NOT NULL PRIMARY KEY
);

-- The time of the service: the database's clock plus `offset_micros`, never before `last_scan_at`, which is when the
-- leases were last scanned. A longer pause between scans is an outage.
CREATE TABLE taskqueue.clock (
    one           smallint NOT NULL PRIMARY KEY CHECK (one = 1),
    offset_micros bigint NOT NULL,
    last_scan_at  bigint
) WITH (fillfactor = 10);
INSERT INTO taskqueue.clock (one, offset_micros) VALUES (1, 0);
