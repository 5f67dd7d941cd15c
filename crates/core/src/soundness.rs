//! What must be true of every stored task, its output and every stored observation, whatever has happened to them
//! (docs/reference/invariants.md). The state machine keeps it so; `taskqueue check` looks for rows that say otherwise. Nothing is
//! read here, and what only one kind of storage derives from the rows is checked there.

use crate::definition::{Routes, check_stored_size, routes_of, task_name};
use crate::ids::{Route, RunId};
use crate::json::{self, JsonObject};
use crate::limits::{OUTPUT_OFFSET_MAX, OUTPUT_PARTS};
use crate::observation::Observation;
use crate::output::{KeptOutput, Part};
use crate::status::word_enum;
use crate::task::{Lifecycle, RunEnd, Status, Task, TaskHead};

word_enum! {
    /// A rule that can be broken.
    #[derive(PartialOrd, Ord)]
    pub enum Rule {
        /// The database engine finds its own files sound.
        Engine = "engine",
        /// Tables and indexes are those of this version.
        Schema = "schema",
        /// Every row can be read.
        Readable = "readable",
        /// Every row belongs to something that exists.
        References = "references",
        /// A task has a run and a lease exactly while it is running, and its ended run fits its status.
        Runs = "runs",
        Attempts = "attempts",
        Times = "times",
        /// The sizes that are stored beside a task are those of the task, and within the limits.
        Sizes = "sizes",
        CanonicalJson = "canonical_json",
        /// The counts that are kept are the numbers of tasks.
        Tally = "tally",
        /// The pending order has the pending tasks and no others.
        PendingOrder = "pending_order",
        /// The list of running tasks has the running tasks and no others.
        Running = "running",
        /// A run id belongs to one task, and the lists of used run ids know it.
        RunIds = "run_ids",
        /// The rows that a start reads contain every pending and running task.
        LivingTasks = "living_tasks",
        Output = "output",
        Observations = "observations",
        /// Only tasks that have ended are archived.
        Archive = "archive",
        /// The dependencies of each task are noted, and how much of it has not succeeded.
        Dependencies = "dependencies",
        /// The settings of each queue can be read.
        Settings = "settings",
        /// The files of a backup are there, as its manifest says.
        Manifest = "manifest",
    }
}

/// A broken rule, and what is wrong in words that follow the name of what it is about.
pub type Broken = (Rule, &'static str);

/// A sentence about a lifecycle and the attempt budget that is never true.
type NeverTrue = (Rule, &'static str, fn(&Lifecycle, i64) -> bool);

/// In the order of the lifecycle's fields. Cancelling and requeueing keep what the last run left.
const OF_LIFECYCLES: &[NeverTrue] = &[
    (Rule::Runs, "is running without a run", |life, _| life.status == Status::Running && life.run.is_none()),
    (Rule::Runs, "has a run and is not running", |life, _| life.status != Status::Running && life.run.is_some()),
    (Rule::Runs, "is running and has no route of its claim", |life, _| life.run.is_some() && life.last_route.is_none()),
    (Rule::Runs, "has the same run as active and as finished", |life, _| {
        life.run.zip(life.finished_run).is_some_and(|(active, finished)| active.run_id == finished.run_id)
    }),
    (Rule::Runs, "has succeeded, and its run was not completed", |life, _| {
        life.status == Status::Succeeded && end(life) != Some(RunEnd::Complete)
    }),
    (Rule::Runs, "has a completed run and has not succeeded", |life, _| {
        life.status != Status::Succeeded && end(life) == Some(RunEnd::Complete)
    }),
    (Rule::Runs, "has failed, and its run did not", |life, _| {
        life.status == Status::Failed
            && !matches!(end(life), Some(RunEnd::Fail | RunEnd::HeartbeatExpired | RunEnd::Timeout))
    }),
    (Rule::Attempts, "has an attempt budget below 1", |_, max| max < 1),
    (Rule::Attempts, "has a negative attempt", |life, _| life.attempt < 0),
    (Rule::Attempts, "is pending without an attempt left", |life, max| {
        life.status == Status::Pending && life.attempt >= max
    }),
    (Rule::Attempts, "is running beyond its attempt budget", |life, max| {
        life.status == Status::Running && life.attempt > max
    }),
    (Rule::Attempts, "has run and has no attempt", |life, _| {
        matches!(life.status, Status::Running | Status::Succeeded | Status::Failed) && life.attempt == 0
    }),
    (Rule::Times, "changed before it was created", |life, _| life.updated_at < life.created_at),
    (Rule::Times, "started before it was created", |life, _| life.started_at.is_some_and(|at| at < life.created_at)),
    (Rule::Times, "started after its last change", |life, _| life.started_at.is_some_and(|at| at > life.updated_at)),
    (Rule::Times, "finished after its last change", |life, _| life.finished_at.is_some_and(|at| at > life.updated_at)),
    (Rule::Times, "finished and never started", |life, _| life.finished_at.is_some() && life.started_at.is_none()),
    (Rule::Times, "finished before it started", |life, _| {
        life.started_at.zip(life.finished_at).is_some_and(|(started, finished)| finished < started)
    }),
    (Rule::Times, "is running and never started", |life, _| life.run.is_some() && life.started_at.is_none()),
    (Rule::Times, "is running and has finished", |life, _| life.run.is_some() && life.finished_at.is_some()),
    (Rule::Times, "has ended and not finished", |life, _| {
        matches!(life.status, Status::Succeeded | Status::Failed) && life.finished_at.is_none()
    }),
    (Rule::Runs, "has finished and has no finished run", |life, _| {
        life.finished_at.is_some() && life.finished_run.is_none()
    }),
    (Rule::Times, "is running and waits for a time", |life, _| life.run.is_some() && life.not_before.is_some()),
    (Rule::Archive, "is archived and has not ended", |life, _| life.archived && !life.status.is_ended()),
];

fn end(lifecycle: &Lifecycle) -> Option<RunEnd> {
    lifecycle.finished_run.map(|run| run.end)
}

/// Returns what is wrong with a task. `head` is what storage has beside the task: it holds the sizes that it noted.
pub fn task(task: &Task, head: &TaskHead) -> Vec<Broken> {
    let (life, definition) = (&task.lifecycle, &task.definition);
    let of_life = OF_LIFECYCLES.iter().filter(|(_, _, is_so)| is_so(life, definition.max_attempts));
    let mut broken: Vec<Broken> = of_life.map(|(rule, what, _)| (*rule, *what)).collect();
    let mut never = |rule, what, is_so: bool| {
        if is_so {
            broken.push((rule, what));
        }
    };
    let outcome = &task.outcome;
    let error = outcome.last_error.as_ref();
    never(Rule::Runs, "has failed without an error", life.status == Status::Failed && error.is_none());
    never(Rule::Attempts, "has an error of no attempt", {
        error.is_some_and(|error| error.attempt < i64::from(error.run_id.is_some()))
    });
    never(Rule::Times, "has an error of later than its last change", {
        error.is_some_and(|error| error.occurred_at > life.updated_at)
    });
    never(Rule::Attempts, "has a last run of no attempt", outcome.last_run.as_ref().is_some_and(|run| run.attempt < 1));
    let waits_for = definition.scheduling.dependencies.len();
    never(Rule::Dependencies, "has more unmet dependencies than dependencies", life.unmet as usize > waits_for);
    never(Rule::Sizes, "is not of the size that is noted", definition.stored_bytes() != head.definition_bytes);
    never(Rule::Sizes, "has progress of another size than noted", outcome.progress_bytes() != head.progress_bytes);
    let (result_bytes, progress_bytes) = (outcome.result.as_str().len(), outcome.progress_bytes());
    let too_large = check_stored_size(definition.stored_bytes(), result_bytes, progress_bytes).is_err();
    never(Rule::Sizes, "is larger than a task may be", too_large);
    never(Rule::CanonicalJson, "has args that are not canonical", !is_canonical(&definition.args));
    never(Rule::CanonicalJson, "has metadata that are not canonical", !is_canonical(&definition.metadata));
    never(Rule::CanonicalJson, "has a result that is not canonical", !is_canonical(&outcome.result));
    never(Rule::CanonicalJson, "has a worker that is not canonical", {
        outcome.last_run.as_ref().is_some_and(|run| !is_canonical(&run.worker))
    });
    never(Rule::CanonicalJson, "has progress that is not canonical", {
        outcome.progress.as_ref().is_some_and(|progress| !is_canonical(&progress.value))
    });
    never(Rule::CanonicalJson, "has routes that are no sorted set", !are_canonical(&definition.routes));
    never(Rule::CanonicalJson, "has a name that is none", {
        definition.name.as_deref().is_some_and(|name| task_name(name).is_err())
    });
    broken
}

/// Returns what is wrong with an observation.
pub fn observation(observation: &Observation) -> Vec<Broken> {
    let telemetry = observation.telemetry.as_ref();
    let cases = [
        ("ends before it was made", observation.expires_at < observation.last_seen_at),
        ("has metadata that are not canonical", !is_canonical(&observation.report.metadata)),
        ("has telemetry that is not canonical", telemetry.is_some_and(|telemetry| !is_canonical(&telemetry.value))),
    ];
    cases.into_iter().filter(|(_, is_so)| *is_so).map(|(what, _)| (Rule::Observations, what)).collect()
}

/// Returns what is wrong with the kept output of a task. `past_runs` are the run ids of the task that its lifecycle does not name;
/// `pieces` are where the stored bytes lie, by their start. A piece may begin with bytes that are no longer kept.
pub fn output(kept: &KeptOutput, task: &Task, past_runs: &[RunId], pieces: &[Part]) -> Vec<Broken> {
    let mut runs = task.lifecycle.run_ids().chain(past_runs.iter().copied());
    let ordered = kept.parts.windows(2).all(|pair| pair[0].end < pair[1].start);
    let sound_parts = !kept.parts.is_empty() && kept.parts.iter().all(|part| part.start < part.end);
    let cases = [
        ("has output of a run that it never had", !runs.any(|run_id| run_id == kept.run_id)),
        ("has output of no attempt", kept.attempt < 1),
        ("keeps parts of output that are empty, overlap or touch", !ordered || !sound_parts),
        ("keeps more parts of output than there may be", kept.parts.len() > OUTPUT_PARTS),
        ("keeps output behind the largest offset", kept.end() > OUTPUT_OFFSET_MAX),
        ("has pieces of output that overlap", pieces.windows(2).any(|pair| pair[0].end > pair[1].start)),
        ("has an empty piece of output", pieces.iter().any(|piece| piece.start >= piece.end)),
        ("lacks bytes of its output", kept.parts.iter().any(|part| !is_covered(*part, pieces))),
    ];
    cases.into_iter().filter(|(_, is_so)| *is_so).map(|(what, _)| (Rule::Output, what)).collect()
}

/// Returns whether the pieces, sorted by their start, hold every byte of a part.
fn is_covered(part: Part, pieces: &[Part]) -> bool {
    let first = pieces.partition_point(|piece| piece.end <= part.start);
    let mut place = part.start;
    for piece in &pieces[first..] {
        if place >= part.end || piece.start > place {
            break;
        }
        place = place.max(piece.end);
    }
    place >= part.end
}

/// Returns whether this is what the reader of requests would have made of it.
fn is_canonical(object: &JsonObject) -> bool {
    if object.is_empty_object() {
        return true;
    }
    let parsed = json::parse(object.as_str().as_bytes()).ok();
    parsed.and_then(|value| JsonObject::from_value(&value).ok()).is_some_and(|again| again == *object)
}

fn are_canonical(routes: &Routes) -> bool {
    let parsed: Option<Vec<Route>> = routes_of(routes.as_json()).map(Route::parse).collect();
    parsed.and_then(Routes::new).is_some_and(|again| again == *routes)
}

#[cfg(test)]
#[path = "soundness_tests.rs"]
mod tests;
