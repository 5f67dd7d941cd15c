-- Times are microseconds since 1970. JSON is the canonical text that the rules produced. Text orders by code point. In each table
-- columns of fixed width come first and those that may be large last.
--
-- A task is three rows. `tasks` is narrow and holds what actions change; `definitions` holds the heavy JSON that only
-- creation and update touch; `outcomes` exists only for tasks that have a result, an error, a last run or progress.
--
-- Why claims do not slow down:
-- * No index of `tasks` contains a column that a claim or a report changes, and half of each page is left free, so both are HOT
--   updates: they write one page and no index, and the next visitor of the page removes the old version.
-- * What is claimable stands in `ready`, with one index that is the claim's order. A batch of claims walks it once. The
--   entries of claimed tasks stay at its head until they are vacuumed; readers mark them as dead on their way, so that a
--   page of some hundred dead entries costs a microsecond, and autovacuum is told to come early.
-- * Nothing is notified inside a write.

-- Queue keys, task keys and places in the pending order. One value is a block of 1024 numbers.
CREATE SEQUENCE taskqueue.numbers AS bigint INCREMENT BY 1024 START WITH 1024;

CREATE TABLE taskqueue.queues (
    -- Never given again, so that nothing of an earlier queue of the same name (cursors, rows that are still being
    -- purged) can be mistaken for the new one's.
    queue_key   bigint NOT NULL PRIMARY KEY,
    -- Until then nothing new begins in the queue, because somebody needs it for itself alone.
    held_until  bigint NOT NULL DEFAULT 0,
    -- Whether claims look at the settings before they pick tasks: the queue is paused, or has limits.
    takes_turns boolean NOT NULL DEFAULT false,
    name        text COLLATE "C" NOT NULL UNIQUE,
    -- As JSON; null for the default (docs/decisions/0064). In the row that every batch of the queue holds: a change of them holds it
    -- alone, so that whoever holds it sees the settings that count, at no cost.
    settings    text COLLATE "C"
) WITH (fillfactor = 50);

-- One row for each queue that limits claims. Whoever claims there holds it, one server at a time.
CREATE TABLE taskqueue.claim_turns (
    queue_key bigint NOT NULL PRIMARY KEY REFERENCES taskqueue.queues ON DELETE CASCADE
);

-- For how long a queue keeps tasks that ended in a state; one row for each state that is not kept for ever.
CREATE TABLE taskqueue.retention (
    queue_key   bigint NOT NULL REFERENCES taskqueue.queues ON DELETE CASCADE,
    kept_micros bigint NOT NULL,
    status      text COLLATE "C" NOT NULL,
    PRIMARY KEY (queue_key, status)
);

-- Deleted queues whose tasks are still being removed, a few at a time.
CREATE TABLE taskqueue.purges (
    queue_key  bigint NOT NULL PRIMARY KEY,
    -- Until when the run ids of the queue's tasks stay used.
    kept_until bigint NOT NULL
);

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
    -- A pending task is not claimable before.
    not_before       bigint,
    lease_expires_at bigint,
    -- Until when the active run may be active; null without a limit.
    times_out_at     bigint,
    -- The size of the progress; null without one.
    progress_bytes   bigint,
    -- How many of its dependencies have not succeeded; null for none.
    unmet            integer,
    -- Null for false.
    archived         boolean,
    id               text COLLATE "C" NOT NULL,
    status           text COLLATE "C" NOT NULL,
    routes           text COLLATE "C" NOT NULL,
    last_route       text COLLATE "C",
    run_id           text COLLATE "C",
    finished_run_id  text COLLATE "C",
    finished_run_end text COLLATE "C",
    name             text COLLATE "C",
    -- What the task uses of delays, limits and dependencies, as JSON; null for nothing.
    scheduling       text COLLATE "C"
) WITH (fillfactor = 50);
CREATE UNIQUE INDEX tasks_by_id ON taskqueue.tasks (queue_key, id);
-- The order of lists, archived tasks apart: a page of the others walks over none of them, however many there are. Each task is in one
-- of the two, and no claim or report changes in which one.
CREATE INDEX tasks_by_creation ON taskqueue.tasks (queue_key, created_at, id) WHERE archived IS NOT TRUE;
CREATE INDEX archived_by_creation ON taskqueue.tasks (queue_key, created_at, id) WHERE archived;

CREATE TABLE taskqueue.definitions (
    task_key bigint NOT NULL PRIMARY KEY,
    identity bytea NOT NULL,
    args     text COLLATE "C" NOT NULL,
    metadata text COLLATE "C" NOT NULL
);

-- Rows of running tasks change with each report of progress: some of each page stays free for their next version.
CREATE TABLE taskqueue.outcomes (
    task_key            bigint NOT NULL PRIMARY KEY,
    error_occurred_at   bigint,
    error_attempt       bigint,
    last_run_attempt    bigint,
    progress_updated_at bigint,
    progress_attempt    bigint,
    error_run_id        text COLLATE "C",
    -- Who ran the task last, if the claim said so. The id of that run is in `tasks`: it is the active run or the latest finished one.
    last_run_worker     text COLLATE "C",
    -- Type, message and traceback as a JSON array: a string of PostgreSQL cannot hold U+0000, an escape can.
    error               text COLLATE "C",
    result              text COLLATE "C",
    progress            text COLLATE "C"
) WITH (fillfactor = 80);

-- One row for each task that keeps output, without the bytes (docs/decisions/0048). It changes with each send.
CREATE TABLE taskqueue.outputs (
    task_key   bigint NOT NULL PRIMARY KEY,
    attempt    bigint NOT NULL,
    -- The offset behind the last byte.
    end_offset bigint NOT NULL,
    -- The number of bytes that are kept.
    bytes      bigint NOT NULL,
    -- Where the last piece begins.
    last_start bigint NOT NULL,
    run_id     text COLLATE "C" NOT NULL,
    -- Which bytes are kept: start and end of each part, as `0-512 1024-2048`.
    parts      text COLLATE "C" NOT NULL
) WITH (
    fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0
);

-- The bytes. They are no text: output may hold U+0000, and a piece may end inside a character. Pieces do not overlap; bytes of
-- a piece before the first kept one do not count.
CREATE TABLE taskqueue.output_pieces (
    task_key bigint NOT NULL,
    start    bigint NOT NULL,
    bytes    bytea NOT NULL,
    PRIMARY KEY (task_key, start)
) WITH (
    autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0
);
-- A piece is never larger than what fits into a page, so that nothing is compressed or moved elsewhere while it grows. Before
-- PostgreSQL 16 `CREATE TABLE` cannot say so.
ALTER TABLE taskqueue.output_pieces ALTER COLUMN bytes SET STORAGE PLAIN;

-- Deleted tasks whose pieces of output are still being removed, some at a time.
CREATE TABLE taskqueue.output_purges (
    task_key bigint NOT NULL PRIMARY KEY
);

-- Every run id of a task that exists, active or not, and for a while those of deleted tasks: they have a time until which they are
-- kept. The primary key is what makes a run id unique over all servers.
CREATE TABLE taskqueue.runs (
    run_id     text COLLATE "C" NOT NULL PRIMARY KEY,
    task_key   bigint NOT NULL,
    kept_until bigint
);
CREATE INDEX runs_by_task ON taskqueue.runs (task_key);
CREATE INDEX runs_by_kept_until ON taskqueue.runs (kept_until, run_id) WHERE kept_until IS NOT NULL;

-- One row for each route of a task that can be claimed. Found and deleted by its own index alone: the writer knows the values.
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

-- Pending tasks whose dependencies are met and whose time was in the future when they were noted (docs/decisions/0063). From there
-- they are moved to `ready`; until then they are not in it. Whoever adds, moves or removes a row holds the row of the task.
CREATE TABLE taskqueue.delayed (
    queue_key  bigint NOT NULL,
    not_before bigint NOT NULL,
    task_key   bigint NOT NULL,
    PRIMARY KEY (queue_key, not_before, task_key)
) WITH (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0
);
-- For those of all queues.
CREATE INDEX delayed_by_time ON taskqueue.delayed (not_before, task_key);

-- One row for each running task: as many as there are busy workers, so the lease scan reads all of them.
CREATE TABLE taskqueue.running (
    task_key  bigint NOT NULL PRIMARY KEY,
    -- Only of tasks of queues that limit claims: the queue, and the route that the task was claimed for. There they are counted.
    queue_key bigint,
    route     text COLLATE "C"
) WITH (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0
);
CREATE INDEX running_by_route ON taskqueue.running (queue_key, route) WHERE queue_key IS NOT NULL;

-- One row for each task that ended without success. In most queues they are few, and a list or count of them must not cost
-- what all tasks of the queue cost (docs/decisions/0004). A table of its own: an index of `tasks` with the status in its columns or
-- its condition would end the HOT updates of claims and reports. A task enters it when it fails for good or is cancelled:
-- creations, claims and completions write nothing here.
CREATE TABLE taskqueue.unsuccessful (
    task_key  bigint NOT NULL PRIMARY KEY,
    queue_key bigint NOT NULL,
    status    text COLLATE "C" NOT NULL
);
CREATE INDEX unsuccessful_by_status ON taskqueue.unsuccessful (queue_key, status);

-- How many tasks a queue has for each set of routes and each status, as the sum over the shards. Each writer has a
-- shard of its own, so that writers do not wait for each other's commit; a single shard may be below zero. Archived tasks are
-- counted in shards with numbers below zero: -1 in place of 0, -2 in place of 1, and so on.
CREATE TABLE taskqueue.tally (
    queue_key bigint NOT NULL,
    tasks     bigint NOT NULL,
    shard     smallint NOT NULL,
    status    text COLLATE "C" NOT NULL,
    routes    text COLLATE "C" NOT NULL,
    -- Stands for the routes in the key: an entry of an index has 2,704 bytes at most, the routes of a task 33,000. The
    -- decoding gives the bytes of the text as they are; what other functions give depends on settings, which is not
    -- allowed here.
    digest    bytea NOT NULL GENERATED ALWAYS AS (sha256(decode(replace(routes, '\', '\\'), 'escape'))) STORED,
    PRIMARY KEY (queue_key, digest, status, shard)
) WITH (
    fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0
);

-- One row for each dependency of a task, by its id: it may not exist. Whoever writes a row holds the row of the task that waits.
CREATE TABLE taskqueue.dependencies (
    queue_key  bigint NOT NULL,
    task_key   bigint NOT NULL,
    -- What the dependency was when it was noted last: its place in `DependencyState::ALL`.
    state      smallint NOT NULL,
    dependency text COLLATE "C" NOT NULL,
    PRIMARY KEY (queue_key, dependency, task_key)
) WITH (
    fillfactor = 80,
    autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0
);

-- Tasks whose dependents are to be looked at again. Rows are only added: nobody waits for one that another server works off.
CREATE TABLE taskqueue.unsettled (
    unsettled_key bigint NOT NULL GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    queue_key     bigint NOT NULL,
    -- Behind which of its dependents to go on.
    after_key     bigint,
    -- Whether it did not exist when somebody began to wait for it. Another server may have created and ended it before that was
    -- visible. If it still does not exist, nothing is to be done.
    was_missing   boolean NOT NULL,
    dependency    text COLLATE "C" NOT NULL
) WITH (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0
);

-- Ended tasks of queues that keep their status for a limited time. A row may be of a task that has changed since, or is gone.
CREATE TABLE taskqueue.ended (
    queue_key bigint NOT NULL,
    ended_at  bigint NOT NULL,
    task_key  bigint NOT NULL,
    status    text COLLATE "C" NOT NULL,
    PRIMARY KEY (queue_key, status, ended_at, task_key)
) WITH (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0
);

-- Queues whose tasks are being read once, because they got such a setting, and behind which task to go on, in the order of the ids.
CREATE TABLE taskqueue.ended_readings (
    queue_key bigint NOT NULL PRIMARY KEY REFERENCES taskqueue.queues ON DELETE CASCADE,
    after_id  text COLLATE "C" NOT NULL
);

CREATE TABLE taskqueue.observations (
    queue_key            bigint NOT NULL,
    last_seen_at         bigint NOT NULL,
    expires_at           bigint NOT NULL,
    telemetry_updated_at bigint,
    id                   text COLLATE "C" NOT NULL,
    route                text COLLATE "C" NOT NULL,
    status               text COLLATE "C" NOT NULL,
    task_id              text COLLATE "C",
    metadata             text COLLATE "C" NOT NULL,
    telemetry            text COLLATE "C",
    PRIMARY KEY (queue_key, id)
) WITH (fillfactor = 50);

-- What happened to the tasks of each queue, counted by minute and by hour. Each process has rows of its own, so that servers never
-- wait for each other's; readers add them up (docs/decisions/0059). Nothing else depends on it. A process writes its current rows
-- every few seconds: no index contains what changes, and half of each page is left free for the next version.
CREATE TABLE taskqueue.activity (
    queue_key    bigint NOT NULL REFERENCES taskqueue.queues ON DELETE CASCADE,
    -- How long the counted time is: 60 or 3600.
    unit_seconds bigint NOT NULL,
    start_at     bigint NOT NULL,
    process      bigint NOT NULL,
    counted      bytea NOT NULL,
    PRIMARY KEY (queue_key, unit_seconds, start_at, process)
) WITH (fillfactor = 50);
-- For forgetting.
CREATE INDEX activity_by_start ON taskqueue.activity (unit_seconds, start_at);

-- From when on activity is known, in the time of the service. One row, which the first server writes that opens the database.
CREATE TABLE taskqueue.activity_since (
    one   smallint NOT NULL PRIMARY KEY CHECK (one = 1),
    since bigint NOT NULL
);

-- The time of the service: the database's clock plus `offset_micros`, never before `last_scan_at`, which is when the
-- leases were last scanned. A longer pause between scans is an outage.
CREATE TABLE taskqueue.clock (
    one           smallint NOT NULL PRIMARY KEY CHECK (one = 1),
    offset_micros bigint NOT NULL,
    last_scan_at  bigint,
    -- Since when the database's clock is ahead of the time of the service by more than an outage.
    ahead_since   bigint
) WITH (fillfactor = 10);
INSERT INTO taskqueue.clock (one, offset_micros) VALUES (1, 0);

-- The secret that all servers of this installation share (docs/decisions/0061). One row, which the first server writes that opens
-- the database.
CREATE TABLE taskqueue.installation_secret (
    one    smallint NOT NULL PRIMARY KEY CHECK (one = 1),
    secret bytea NOT NULL CHECK (length(secret) = 32)
);
