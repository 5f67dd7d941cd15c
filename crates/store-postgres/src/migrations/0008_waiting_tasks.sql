-- Tasks that wait for a time or for other tasks, time limits of runs, archived tasks, settings of queues
-- (docs/decisions/0063, 0064). Adding columns without a default rewrites no row. No index contains what claims and
-- reports change, so that they stay HOT updates. Tables with rows for a queue go with it, also when a server deletes the queue that does
-- not know them.

-- A pending task is not claimable before.
ALTER TABLE taskqueue.tasks ADD COLUMN not_before bigint;
-- How many of its dependencies have not succeeded; null for none.
ALTER TABLE taskqueue.tasks ADD COLUMN unmet integer;
ALTER TABLE taskqueue.tasks ADD COLUMN archived boolean;
-- Until when the active run may be active; null without a limit.
ALTER TABLE taskqueue.tasks ADD COLUMN times_out_at bigint;
-- What the task uses of delays, limits and dependencies, as JSON; null for nothing.
ALTER TABLE taskqueue.tasks ADD COLUMN scheduling text COLLATE "C";

-- Pending tasks whose dependencies are met and whose time was in the future when they were noted. From there they are moved to
-- `ready`; until then they are not in it. Whoever adds, moves or removes a row holds the row of the task.
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

-- The settings of a queue as JSON; null for the default. In the row that every batch of the queue holds: a change of them holds it
-- alone, so that whoever holds it sees the settings that count, at no cost.
ALTER TABLE taskqueue.queues ADD COLUMN settings text COLLATE "C";
-- Whether claims look at the settings before they pick tasks: the queue is paused, or has limits.
ALTER TABLE taskqueue.queues ADD COLUMN takes_turns boolean NOT NULL DEFAULT false;

-- One row for each queue that limits claims. Whoever claims there holds it, one server at a time.
CREATE TABLE taskqueue.claim_turns (
    queue_key bigint NOT NULL PRIMARY KEY REFERENCES taskqueue.queues ON DELETE CASCADE
);

-- Only of tasks of queues that limit claims: the queue, and the route that the task was claimed for. There they are counted.
ALTER TABLE taskqueue.running ADD COLUMN queue_key bigint;
ALTER TABLE taskqueue.running ADD COLUMN route text COLLATE "C";
CREATE INDEX running_by_route ON taskqueue.running (queue_key, route) WHERE queue_key IS NOT NULL;

-- For how long a queue keeps tasks that ended in a state; one row for each state that is not kept for ever.
CREATE TABLE taskqueue.retention (
    queue_key   bigint NOT NULL REFERENCES taskqueue.queues ON DELETE CASCADE,
    kept_micros bigint NOT NULL,
    status      text COLLATE "C" NOT NULL,
    PRIMARY KEY (queue_key, status)
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

-- The order of lists, archived tasks apart: a page of the others walks over none of them, however many there are. Each task is in one
-- of the two, as it was in one index before, and no claim or report changes in which one.
DROP INDEX taskqueue.tasks_by_creation;
CREATE INDEX tasks_by_creation ON taskqueue.tasks (queue_key, created_at, id) WHERE archived IS NOT TRUE;
CREATE INDEX archived_by_creation ON taskqueue.tasks (queue_key, created_at, id) WHERE archived;

-- In `tally`, archived tasks are counted in shards below zero: -1 in place of 0, -2 in place of 1, and so on. Its primary key stays,
-- by which older servers find their rows, and their sums over all shards stay right: they know no archived tasks.
