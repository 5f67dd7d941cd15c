//! Who runs a task, or ran it last: what its claim said, and what its worker measures now.

use taskqueue_core::filter::ObservationFilter;
use taskqueue_core::ids::QueueName;
use taskqueue_core::json::{Found, elements, lookup};
use taskqueue_core::observation::{Observation, Telemetry};
use taskqueue_core::selection::ObservationQuery;
use taskqueue_core::task::{Status, Task};
use taskqueue_core::time::Timestamp;
use taskqueue_store::{Store, StoreError};

use super::cut;
use crate::show::{Moment, bytes};

/// Members of what a claim said that are shown.
const MEMBERS: usize = 12;
const MEMBER_CHARS: usize = 160;
/// GPUs that are shown.
const GPUS: usize = 16;

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
const FIRST: [&str; 6] = ["host", "slot", "slots", "gpu", "pid", "folder"];

impl WorkerView {
    pub(super) async fn read(
        store: &dyn Store,
        queue: &QueueName,
        task: &Task,
        now: Timestamp,
    ) -> Result<Self, StoreError> {
        let is_running = task.lifecycle.status == Status::Running;
        let mut said = match &task.outcome.last_run {
            Some(run) => cut::members(run.worker.as_str(), MEMBERS, MEMBER_CHARS),
            None => Vec::new(),
        };
        let whole = task
            .outcome
            .last_run
            .as_ref()
            .map_or(Vec::new(), |run| cut::members(run.worker.as_str(), usize::MAX, usize::MAX));
        let is_cut = said != whole;
        said.sort_by_key(|(name, _)| FIRST.iter().position(|first| first == name).unwrap_or(FIRST.len()));
        let observed = if is_running { observation(store, queue, task).await? } else { None };
        let telemetry = observed.as_ref().and_then(|observed| observed.telemetry.as_ref());
        Ok(Self {
            said,
            measured: telemetry.map(measured).unwrap_or_default(),
            measured_at: telemetry.map(|telemetry| Moment::new(telemetry.updated_at, now)),
            is_running,
            is_cut,
        })
    }

    /// What the claim said under a name.
    pub(super) fn said(&self, name: &str) -> Option<&str> {
        self.said.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// The worker that says now that it runs this task.
async fn observation(store: &dyn Store, queue: &QueueName, task: &Task) -> Result<Option<Observation>, StoreError> {
    let filter = ObservationFilter::parse(&format!("task_id == \"{}\"", task.id)).ok();
    if filter.is_none() {
        return Ok(None);
    }
    let page = store.list_workers(queue, ObservationQuery { filter, limit: 1, after: None }).await?;
    Ok(page.items.into_iter().next())
}

fn measured(telemetry: &Telemetry) -> Vec<(&'static str, String)> {
    let text = telemetry.value.as_str();
    let cpu = amount(text, "cpu_percent").map(|percent| ("CPU", format!("{percent:.0} % of a core")));
    let memory = amount(text, "memory_bytes").map(|size| ("Memory", bytes(size as u64)));
    let gpus = match lookup(text, &["gpus"]) {
        Some(Found::Array(gpus)) => elements(gpus).take(GPUS).filter_map(gpu).map(|text| ("GPU", text)).collect(),
        _ => Vec::new(),
    };
    cpu.into_iter().chain(memory).chain(gpus).collect()
}

/// `97 % · 38.2 GiB of 40 GiB · 71 °C`, as far as it was measured.
fn gpu(gpu: Found<'_>) -> Option<String> {
    let Found::Object(gpu) = gpu else { return None };
    let size = |name| amount(gpu, name).map(|size| bytes(size as u64));
    let memory = match (size("memory_used_bytes"), size("memory_total_bytes")) {
        (Some(used), Some(total)) => Some(format!("{used} of {total}")),
        (used, _) => used,
    };
    let use_percent = amount(gpu, "utilization_percent").map(|percent| format!("{percent:.0} %"));
    let temperature = amount(gpu, "temperature_celsius").map(|degrees| format!("{degrees:.0} °C"));
    let parts: Vec<String> = [use_percent, memory, temperature].into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join(" · "))
}

/// A number that can be: finite and not negative.
fn amount(object: &str, name: &str) -> Option<f64> {
    let number = match lookup(object, &[name])? {
        Found::Int(int) => int as f64,
        Found::Float(float) => float,
        _ => return None,
    };
    (number.is_finite() && number >= 0.0).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use taskqueue_core::json::JsonObject;

    fn seen(text: &str) -> Vec<(&'static str, String)> {
        measured(&Telemetry { value: JsonObject::from_canonical(text), updated_at: Timestamp::from_micros(0) })
    }

    #[test]
    fn what_our_workers_measure_is_shown_and_nonsense_is_not() {
        let gpus = r#"{"cpu_percent":312.4,"gpus":[{"memory_total_bytes":42949672960,"memory_used_bytes":41017000000,"temperature_celsius":71,"utilization_percent":97},{},7],"memory_bytes":5583457485}"#;
        let expected =
            [("CPU", "312 % of a core"), ("Memory", "5.2 GiB"), ("GPU", "97 % · 38.2 GiB of 40 GiB · 71 °C")];
        assert_eq!(seen(gpus), expected.map(|(name, text)| (name, text.to_owned())));
        for odd in ["{}", r#"{"cpu_percent":"much","gpus":"none","memory_bytes":-1}"#, r#"{"gpus":[1,null,{"a":1}]}"#] {
            assert_eq!(seen(odd), [], "{odd}");
        }
        assert_eq!(seen(r#"{"memory_bytes":1.7976931348623157e308}"#).len(), 1);
    }
}
