//! Why a task is pending, as far as that is known now: what keeps claims from it, whether somebody is there for its routes, what it waits
//! for, and what waits for it. The reasons are found by the store and ordered in `core`; here they become sentences.

use std::borrow::Cow;

use taskqueue_core::explain::{Explanation, Reason};
use taskqueue_core::{QueueFigures, Routes, Status, Task, TaskId, Timestamp};
use taskqueue_store::related::{Related, RelatedTask};
use taskqueue_store::{Store, StoreError};

use crate::show::{self, command_line, count};

/// Routes that are named.
const ROUTES: usize = 5;

/// Why a task waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Waiting {
    /// The one that weighs most first.
    pub(super) reasons: Vec<Sentence>,
    /// What starts a worker, if there is none.
    pub(super) command: Option<String>,
}

/// A reason, and where something can be done about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sentence {
    pub(super) text: String,
    pub(super) link: Option<(String, &'static str)>,
}

impl Sentence {
    fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), link: None }
    }

    fn leading(self, address: String, text: &'static str) -> Self {
        Self { link: Some((address, text)), ..self }
    }
}

impl Waiting {
    /// Nothing if the task is not pending. Without an explanation only the workers of its routes are told of.
    /// `url` is the address of this server, for the command that starts a worker.
    pub(super) fn of(
        task: &Task,
        explanation: Option<&Explanation>,
        figures: &QueueFigures,
        url: &str,
        now: Timestamp,
    ) -> Option<Self> {
        if task.lifecycle.status != Status::Pending {
            return None;
        }
        let routes = &task.definition.routes;
        let serving = || figures.routes().filter(|(route, _)| routes.contains(route)).map(|(_, figures)| figures);
        let idle = serving().map(|figures| figures.workers_idle).sum();
        let busy = serving().map(|figures| figures.workers_busy).sum();
        let reasons = explanation.map_or(&[][..], |explanation| &explanation.reasons);
        let is_claimable = explanation.is_none_or(|explanation| explanation.claimable);
        let has_no_worker = match explanation {
            Some(_) => reasons.iter().any(|reason| matches!(reason, Reason::NoWorker { .. })),
            None => idle + busy == 0,
        };
        let mut sentences: Vec<Sentence> = reasons.iter().filter_map(|reason| sentence(task, reason, now)).collect();
        // Who is idle does not take a task that cannot be claimed.
        if is_claimable || has_no_worker {
            sentences.push(Sentence::new(workers_sentence(routes, [idle, busy], has_no_worker)));
        }
        let route = routes.iter().next().unwrap_or_default();
        let command = command_line("loop", task.queue.as_str(), url).flag("--route", route).running("COMMAND");
        Some(Self { reasons: sentences, command: (is_claimable && has_no_worker).then(|| command.to_string()) })
    }

    /// Returns whether nobody is there who could take the task.
    pub(super) fn is_starving(&self) -> bool {
        self.command.is_some()
    }
}

/// Returns what keeps a claim from the task, or lets others come first.
fn sentence(task: &Task, reason: &Reason, now: Timestamp) -> Option<Sentence> {
    let (settings, dependencies) = (format!("/ui/queues/{}/settings", task.queue), "#dependencies".to_owned());
    let told = |text: String| Sentence::new(show::sentence(&text));
    Some(match reason {
        Reason::QueuePaused | Reason::QueueAtLimit { .. } => told(reason.message()).leading(settings, "Settings"),
        Reason::RouteAtLimit { routes } => {
            let routes = routes.iter().take(ROUTES).cloned().collect();
            told(Reason::RouteAtLimit { routes }.message()).leading(settings, "Settings")
        }
        Reason::DependencyCycle { tasks } => {
            let by_way_of = match tasks.as_slice() {
                [] => String::new(),
                [one] => format!(", by way of {one}"),
                [first, rest @ ..] => format!(", by way of {first} and {} more", show::number(rest.len() as u64)),
            };
            let text = format!("It waits for itself{by_way_of}: it is not claimed until its dependencies are changed.");
            Sentence::new(text).leading(dependencies, "Show them")
        }
        Reason::Dependencies { unmet } if unmet.is_empty() => told(reason.message()).leading(dependencies, "Show them"),
        Reason::Dependencies { unmet } => Sentence::new(unmet_words(task, unmet)).leading(dependencies, "Show them"),
        Reason::NotBefore { until } => told(format!("{}, {}", reason.message(), show::ahead(now, *until))),
        Reason::WaitingTurn { .. } => told(reason.message()),
        // It is told with the workers. A task that has just been claimed is shown as such by the next look.
        Reason::NoWorker { .. } | Reason::NotPending { .. } => return None,
    })
}

fn unmet_words(task: &Task, unmet: &[(TaskId, Option<Status>)]) -> String {
    // More than are explained may be unmet.
    let number = u64::from(task.lifecycle.unmet).max(unmet.len() as u64);
    let hopeless =
        unmet.iter().filter(|(_, status)| matches!(status, Some(Status::Failed | Status::Cancelled))).count();
    let missing = unmet.iter().filter(|(_, status)| status.is_none()).count();
    let (has, noun) = if number == 1 { ("has", "task") } else { ("have", "tasks") };
    let mut text = format!("{} {noun} that it waits for {has} not succeeded", show::number(number));
    let told = [(hopeless, "failed or cancelled"), (missing, "missing")];
    let told: Vec<String> =
        told.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")).collect();
    if !told.is_empty() {
        text.push_str(&format!(" ({})", told.join(", ")));
    }
    text.push('.');
    text
}

/// Returns who is there for the routes of a task.
fn workers_sentence(routes: &Routes, [idle, busy]: [u64; 2], has_no_worker: bool) -> String {
    let theirs = if routes.count() == 1 { "its route" } else { "its routes" };
    match (idle, busy) {
        _ if has_no_worker => {
            // One that stopped a moment ago is gone at once, so nothing is said of how long there was none.
            let names: Vec<&str> = routes.iter().take(ROUTES).collect();
            format!("No worker is there for {theirs} ({}).", names.join(", "))
        }
        (0, 0) => format!("A worker for {theirs} was seen lately."),
        (0, 1) => format!("The worker for {theirs} is busy."),
        (0, _) => format!("All {} for {theirs} are busy.", count(busy, "worker")),
        (1, _) => format!("A worker for {theirs} is idle: it should take the task in a moment."),
        (_, _) => {
            format!("{} for {theirs} are idle: one of them should take the task in a moment.", count(idle, "worker"))
        }
    }
}

/// Tasks of each kind that are shown.
const RELATIVES_SHOWN: usize = 100;
/// Tasks that wait for this one which are counted.
const RELATIVES_COUNTED: u16 = 1_000;
const NAME_CHARS: usize = 120;

/// Both kinds; nothing of a kind that there is none of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct RelatedView {
    /// Nothing but the id of a task that is not there.
    pub(super) dependencies: Vec<(TaskId, Option<RelatedTask>)>,
    pub(super) more_dependencies: Option<String>,
    pub(super) dependents: Vec<(TaskId, Option<RelatedTask>)>,
    pub(super) more_dependents: Option<String>,
}

impl RelatedView {
    pub(super) async fn read(store: &dyn Store, task: &Task) -> Result<Self, StoreError> {
        let ids = task.definition.scheduling.dependencies.as_slice();
        let shown: Vec<TaskId> = ids.iter().take(RELATIVES_SHOWN).copied().collect();
        let sought = Related { id: task.id, dependencies: shown.clone(), most_dependents: RELATIVES_COUNTED + 1 };
        let found = store.related_tasks(&task.queue, sought).await?;
        let counted = found.dependents.len();
        let dependents = found.dependents.into_iter().take(RELATIVES_SHOWN).map(|task| (task.id, Some(task)));
        Ok(Self {
            dependencies: shown.into_iter().zip(found.dependencies).collect(),
            more_dependencies: more_relatives(ids.len(), usize::MAX),
            dependents: dependents.collect(),
            more_dependents: more_relatives(counted, RELATIVES_COUNTED.into()),
        })
    }
}

/// Returns how many are not shown, as far as they were counted.
fn more_relatives(found: usize, counted: usize) -> Option<String> {
    let more = |count: usize| show::number(count.saturating_sub(RELATIVES_SHOWN) as u64);
    match found {
        found if found <= RELATIVES_SHOWN => None,
        found if found > counted => Some(format!("and more than {} more", more(counted))),
        found => Some(format!("and {} more", more(found))),
    }
}

/// The beginning of the name of a task, if it has one.
pub(super) fn shown_name(task: &RelatedTask) -> Option<Cow<'_, str>> {
    let name = task.name.as_deref().filter(|name| !name.trim().is_empty());
    name.map(|name| show::cut(name, NAME_CHARS))
}

#[cfg(test)]
#[path = "waiting_tests.rs"]
mod tests;
