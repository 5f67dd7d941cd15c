//! The latest run of a task, as much of it as a page has room for: how far it is, who runs it, and how it failed. What the numbers of
//! progress mean is decided in `core`.

use std::time::Duration;

use taskqueue_core::fields::Value;
use taskqueue_core::progress::{Estimate, Reported};
use taskqueue_core::words::telemetry::Telemetry;
use taskqueue_core::words::{Units, step_rate};
use taskqueue_core::{Observation, ObservationFilter, ObservationQuery, Status, Task, Timestamp, json};
use taskqueue_store::{Store, StoreError, StoreExt};

use crate::show::{self, Moment, cut, duration, number};

/// Members besides the measures that are shown.
const OTHER_MEMBERS: usize = 24;
const OTHER_CHARS: usize = 120;

/// The progress of a task.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ProgressView {
    /// In percent with one decimal, as the width of the bar; nothing without a part that is done.
    pub(super) width: Option<String>,
    pub(super) percent: Option<u64>,
    pub(super) steps: Option<String>,
    pub(super) rate: Option<String>,
    pub(super) left: Option<String>,
    pub(super) reported: Moment,
    pub(super) is_old: bool,
    /// Of which attempt, if that is not the current one.
    pub(super) attempt: Option<i64>,
    pub(super) others: Vec<(String, String)>,
    pub(super) is_running: bool,
}

impl ProgressView {
    /// Nothing if the task said nothing.
    pub(super) fn of(task: &Task, now: Timestamp) -> Option<Self> {
        let progress = task.outcome.progress.as_ref()?;
        let lifecycle = &task.lifecycle;
        let is_running = lifecycle.status == Status::Running;
        let (value, updated_at, started_at) = (&progress.value, progress.updated_at, lifecycle.started_at);
        let reported = Reported { value, updated_at, started_at, is_running };
        let estimate = Estimate::of(reported, now);
        let members = object_members(progress.value.as_str(), OTHER_MEMBERS + estimate.used.len(), OTHER_CHARS);
        Some(Self {
            width: estimate.done.map(|done| format!("{:.1}", done * 100.0)),
            percent: estimate.percent(),
            rate: estimate.step_seconds.and_then(|seconds| step_rate(seconds, Units::Full)),
            left: estimate.seconds_left.map(|seconds| duration(Duration::from_secs(seconds))),
            reported: Moment::new(progress.updated_at, now),
            is_old: estimate.is_old,
            attempt: Some(progress.attempt).filter(|attempt| *attempt != lifecycle.attempt),
            others: members.into_iter().filter(|(key, _)| !estimate.used.contains(&key.as_str())).collect(),
            steps: estimate.steps.map(|(step, total)| format!("step {} of {}", grouped(&step), grouped(&total))),
            is_running,
        })
    }
}

/// Digits in groups, if there is nothing else.
fn grouped(text: &str) -> String {
    text.parse::<u64>().map_or_else(|_| show::cut(text, 40).into_owned(), number)
}

/// Members of what a claim said that are shown.
const CLAIM_MEMBERS: usize = 12;
const CLAIM_MEMBER_CHARS: usize = 160;

/// Who runs a task.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct WorkerView {
    /// What the claim said, the most telling first.
    pub(super) said: Vec<(String, String)>,
    /// What is measured now, by name.
    pub(super) measured: Vec<(&'static str, String)>,
    pub(super) measured_at: Option<Moment>,
    pub(super) is_running: bool,
    /// Whether the claim said more.
    pub(super) is_cut: bool,
}

/// What workers of ours say, in the order in which people look for it.
const FIRST_MEMBERS: [&str; 6] = ["host", "slot", "slots", "gpu", "pid", "folder"];

impl WorkerView {
    pub(super) async fn read(store: &dyn Store, task: &Task, now: Timestamp) -> Result<Self, StoreError> {
        let is_running = task.lifecycle.status == Status::Running;
        let claim = task.outcome.last_run.as_ref().map_or("{}", |run| run.worker.as_str());
        let mut said = object_members(claim, CLAIM_MEMBERS, CLAIM_MEMBER_CHARS);
        let is_cut = said != object_members(claim, usize::MAX, usize::MAX);
        said.sort_by_key(|(name, _)| {
            FIRST_MEMBERS.iter().position(|first| first == name).unwrap_or(FIRST_MEMBERS.len())
        });
        let observed = if is_running { observation(store, task).await? } else { None };
        let telemetry = observed.as_ref().and_then(|observed| observed.telemetry.as_ref());
        let measured = telemetry.map(|telemetry| measured(telemetry.value.as_str())).unwrap_or_default();
        let measured_at = telemetry.map(|telemetry| Moment::new(telemetry.updated_at, now));
        Ok(Self { said, measured, measured_at, is_running, is_cut })
    }

    /// Returns what the claim said under a name.
    pub(super) fn said(&self, name: &str) -> Option<&str> {
        self.said.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// The worker that says now that it runs this task.
async fn observation(store: &dyn Store, task: &Task) -> Result<Option<Observation>, StoreError> {
    let Ok(filter) = ObservationFilter::parse(&format!("task_id == \"{}\"", task.id)) else { return Ok(None) };
    let page =
        store.list_workers(&task.queue, ObservationQuery { filter: Some(filter), limit: 1, after: None }).await?;
    Ok(page.items.into_iter().next())
}

fn measured(telemetry: &str) -> Vec<(&'static str, String)> {
    let Telemetry { cpu, memory, gpus, .. } = Telemetry::of(telemetry);
    let cpu = cpu.map(|cpu| ("CPU", format!("{} of a core", cpu.text)));
    let memory = memory.map(|memory| ("Memory", memory.text));
    cpu.into_iter().chain(memory).chain(gpus.into_iter().map(|gpu| ("GPU", gpu.words(" · ")))).collect()
}

const KIND_CHARS: usize = 200;
const MESSAGE_CHARS: usize = 2_000;
/// The end of a traceback says most.
const TRACEBACK_CHARS: usize = 20_000;

/// The last error of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FailureView {
    pub(super) kind: String,
    pub(super) message: String,
    pub(super) traceback: Option<String>,
    pub(super) attempt: i64,
    pub(super) at: Moment,
    /// Whether there is more of it.
    pub(super) is_cut: bool,
}

impl FailureView {
    pub(super) fn of(task: &Task, now: Timestamp) -> Option<Self> {
        let error = task.outcome.last_error.as_ref()?;
        let failure = &error.failure;
        let (kind, message) = (cut(&failure.kind, KIND_CHARS), cut(&failure.message, MESSAGE_CHARS));
        let traceback = failure.traceback.as_deref().map(|text| last_chars(text, TRACEBACK_CHARS));
        let are_whole = kind == *failure.kind && message == *failure.message;
        Some(Self {
            is_cut: !are_whole || traceback.as_deref() != failure.traceback.as_deref(),
            kind: kind.into_owned(),
            message: message.into_owned(),
            traceback,
            attempt: error.attempt,
            at: Moment::new(error.occurred_at, now),
        })
    }
}

/// The last characters of a text, and a sign if there are more before them.
fn last_chars(text: &str, chars: usize) -> String {
    match text.char_indices().rev().nth(chars.saturating_sub(1)) {
        Some((start, _)) if start > 0 => format!("…{}", &text[start..]),
        _ => text.to_owned(),
    }
}

/// The members of a canonical object with their values as they are stored; strings without quotes.
fn object_members(object: &str, most: usize, chars: usize) -> Vec<(String, String)> {
    let cut = |text: &str| cut(text, chars).into_owned();
    let value = |found| Value::found(found).map_or("null".to_owned(), |value| cut(&value.text()));
    json::members(object).take(most).map(|(key, found)| (cut(&key.to_text()), value(found))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_grouped_if_there_is_nothing_else() {
        let expected = ("10,000", "0.5", "-3");
        assert_eq!((grouped("10000").as_str(), grouped("0.5").as_str(), grouped("-3").as_str()), expected);
    }

    #[test]
    fn what_our_workers_measure_is_shown_and_nonsense_is_not() {
        let gpus = r#"{"cpu_percent":312.4,"gpus":[{"memory_total_bytes":42949672960,"memory_used_bytes":41017000000,"temperature_celsius":71,"utilization_percent":97},{},7],"memory_bytes":5583457485}"#;
        let expected = [("CPU", "312 % of a core"), ("Memory", "5.2 GiB"), ("GPU", "97 % · 38.2 of 40 GiB · 71 °C")];
        assert_eq!(measured(gpus), expected.map(|(name, text)| (name, text.to_owned())));
        assert_eq!(measured(r#"{"gpus":[1,null,{"a":1}],"note":"hot"}"#), []);
    }

    #[test]
    fn long_texts_are_cut_and_say_so() {
        assert_eq!([last_chars("äöü", 3), last_chars("äöü", 2), last_chars("", 2)], ["äöü", "…öü", ""]);
    }

    #[test]
    fn members_have_the_values_that_are_stored() {
        let read = object_members(r#"{"a":9007199254740993,"b":"x\"y","c":{"d":[1]},"e":0.10}"#, 3, 100);
        let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        assert_eq!(read, [pair("a", "9007199254740993"), pair("b", "x\"y"), pair("c", r#"{"d":[1]}"#)]);
        assert_eq!(object_members("[]", 3, 3), []);
        assert_eq!(object_members("{}", 3, 3), []);
    }
}
