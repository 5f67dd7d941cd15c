//! Who runs a task, or ran it last: what its claim said, and what its worker measures now.

use taskqueue_core::filter::ObservationFilter;
use taskqueue_core::ids::QueueName;
use taskqueue_core::observation::Observation;
use taskqueue_core::selection::ObservationQuery;
use taskqueue_core::task::{Status, Task};
use taskqueue_core::time::Timestamp;
use taskqueue_core::words::telemetry::Telemetry;
use taskqueue_store::{Store, StoreError, StoreExt};

use super::cut;
use crate::show::Moment;

/// Members of what a claim said that are shown.
const MEMBERS: usize = 12;
const MEMBER_CHARS: usize = 160;

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
        let claim = task.outcome.last_run.as_ref().map_or("{}", |run| run.worker.as_str());
        let mut said = cut::members(claim, MEMBERS, MEMBER_CHARS);
        let is_cut = said != cut::members(claim, usize::MAX, usize::MAX);
        said.sort_by_key(|(name, _)| FIRST.iter().position(|first| first == name).unwrap_or(FIRST.len()));
        let observed = if is_running { observation(store, queue, task).await? } else { None };
        let telemetry = observed.as_ref().and_then(|observed| observed.telemetry.as_ref());
        Ok(Self {
            said,
            measured: telemetry.map(|telemetry| measured(telemetry.value.as_str())).unwrap_or_default(),
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

fn measured(telemetry: &str) -> Vec<(&'static str, String)> {
    let Telemetry { cpu, memory, gpus, .. } = Telemetry::of(telemetry);
    let cpu = cpu.map(|cpu| ("CPU", format!("{} of a core", cpu.text)));
    let memory = memory.map(|memory| ("Memory", memory.text));
    cpu.into_iter().chain(memory).chain(gpus.into_iter().map(|gpu| ("GPU", gpu.words(" · ")))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_our_workers_measure_is_shown_and_nonsense_is_not() {
        let gpus = r#"{"cpu_percent":312.4,"gpus":[{"memory_total_bytes":42949672960,"memory_used_bytes":41017000000,"temperature_celsius":71,"utilization_percent":97},{},7],"memory_bytes":5583457485}"#;
        let expected = [("CPU", "312 % of a core"), ("Memory", "5.2 GiB"), ("GPU", "97 % · 38.2 of 40 GiB · 71 °C")];
        assert_eq!(measured(gpus), expected.map(|(name, text)| (name, text.to_owned())));
        assert_eq!(measured(r#"{"gpus":[1,null,{"a":1}],"note":"hot"}"#), []);
    }
}
