//! What a worker measures and sends every 15 seconds: the processors and the memory that the run of each slot uses, the machine, and its
//! GPUs. It is measured once for all slots. Nothing depends on it: what fails is left out, and sent the next time.

mod machine;
pub(crate) mod processes;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use taskqueue_client::{JsonObject, WorkerId};
use taskqueue_core::json::{ObjectWriter, write_array};
use taskqueue_core::limits::TELEMETRY_BYTES;
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::{Instant, sleep, timeout};

use self::machine::{Gpu, HostUsage};
use self::processes::{RunNumber, RunProcesses, RunUsage, Snapshot};
use crate::context::WorkerContext;
use crate::events::Event;
use crate::identity;
use crate::settings::jittered;

/// The first use of processors by a run is measured over this time.
const FIRST_SPAN: Duration = Duration::from_secs(1);
/// After an error the GPUs are left alone for so long: each query of a broken driver takes seconds.
const GPU_PAUSE: Duration = Duration::from_secs(300);
/// The number of requests that are under way at a time, and the longest time of one.
const REQUESTS: usize = 8;
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// The state between two measurements of all slots.
struct TelemetryState {
    /// The usage of the runs at the last time.
    earlier: HashMap<WorkerId, (RunNumber, RunUsage)>,
    no_gpus_until: Option<Instant>,
    has_gpu_error: bool,
}

impl WorkerContext {
    /// Measures and sends until it is dropped.
    pub(crate) async fn serve_telemetry(self: Arc<Self>) {
        if !self.settings.telemetry {
            return;
        }
        let mut measuring = TelemetryState { earlier: HashMap::new(), no_gpus_until: None, has_gpu_error: false };
        let interval = self.settings.intervals.telemetry;
        // The observation comes first.
        let mut pause = interval.min(Duration::from_secs(2));
        loop {
            sleep(jittered(pause)).await;
            pause = interval;
            let measured = measuring.measure(&self).await;
            self.send_telemetry(measured).await;
        }
    }

    async fn send_telemetry(self: &Arc<Self>, measured: Vec<(WorkerId, JsonObject)>) {
        let mut requests = JoinSet::new();
        for (id, telemetry) in measured {
            if requests.len() >= REQUESTS {
                drop(requests.join_next().await);
            }
            let context = Arc::clone(self);
            requests.spawn(async move {
                let call = context.client.report_telemetry(&context.settings.queue, id, &telemetry);
                // If the server does not know the worker, the next observation tells it.
                drop(timeout(REQUEST_TIMEOUT, call).await);
            });
        }
        while requests.join_next().await.is_some() {}
    }
}

impl TelemetryState {
    async fn measure(&mut self, context: &WorkerContext) -> Vec<(WorkerId, JsonObject)> {
        let gpus = self.gpus(context).await;
        let slots = context.measured_slots.all();
        let Some(mut usages) = take_usages(&slots).await else { return Vec::new() };
        if usages.iter().any(|(id, (run, _))| self.earlier.get(id).is_none_or(|(earlier, _)| earlier != run)) {
            self.keep_earlier(usages);
            sleep(FIRST_SPAN).await;
            let Some(again) = take_usages(&slots).await else { return Vec::new() };
            usages = again;
        }
        let Ok(host) = spawn_blocking(HostUsage::measure).await else { return Vec::new() };
        let measured = slots.iter().map(|(id, _)| {
            let usage = usages.get(id).map(|(run, usage)| (usage, self.cpu_percent(id, *run, usage)));
            (*id, telemetry(usage, &host, &gpus))
        });
        let measured = measured.collect();
        let earlier = usages.into_iter().map(|(id, (run, usage))| {
            let before = self.earlier.get(&id).filter(|(earlier, _)| *earlier == run).map(|(_, before)| before);
            (id, (run, usage.as_earlier(before)))
        });
        self.earlier = earlier.collect();
        measured
    }

    /// Keeps what is measured of runs that were not measured before.
    fn keep_earlier(&mut self, usages: HashMap<WorkerId, (RunNumber, RunUsage)>) {
        for (id, (run, usage)) in usages {
            let known = self.earlier.entry(id).or_insert((run, usage));
            if known.0 != run {
                *known = (run, usage);
            }
        }
    }

    fn cpu_percent(&self, id: &WorkerId, run: RunNumber, usage: &RunUsage) -> Option<f64> {
        let (_, earlier) = self.earlier.get(id).filter(|(earlier, _)| *earlier == run)?;
        Some(usage.cpu_percent_since(earlier))
    }

    async fn gpus(&mut self, context: &WorkerContext) -> Vec<Gpu> {
        if self.no_gpus_until.is_some_and(|time| Instant::now() < time) {
            return Vec::new();
        }
        match machine::query_gpus().await {
            Ok(gpus) => gpus,
            Err(why) => {
                self.no_gpus_until = Some(Instant::now() + GPU_PAUSE);
                if !std::mem::replace(&mut self.has_gpu_error, true) {
                    let text = &format!("the GPUs cannot be measured with nvidia-smi: {why}");
                    context.events.on_event(&Event::Note { task_id: None, text });
                }
                Vec::new()
            }
        }
    }
}

/// Returns the usage of the runs of the slots until now.
async fn take_usages(slots: &[(WorkerId, RunProcesses)]) -> Option<HashMap<WorkerId, (RunNumber, RunUsage)>> {
    let runs: Vec<(WorkerId, RunNumber)> =
        slots.iter().filter_map(|(id, processes)| Some((*id, processes.present()?))).collect();
    if runs.is_empty() {
        return Some(HashMap::new());
    }
    let snapshot = spawn_blocking(Snapshot::take).await.ok()?;
    Some(runs.into_iter().filter_map(|(id, run)| Some((id, (run, snapshot.usage(run)?)))).collect())
}

/// The object that is sent. GPUs are left out if they would make it too large.
fn telemetry(usage: Option<(&RunUsage, Option<f64>)>, host: &HostUsage, gpus: &[Gpu]) -> JsonObject {
    let mut object = ObjectWriter::new();
    if let Some((usage, cpu_percent)) = usage {
        if let Some(percent) = cpu_percent {
            object = object.json("cpu_percent", &format!("{percent:.1}"));
        }
        let processes = i64::try_from(usage.processes).unwrap_or(i64::MAX);
        object = object.integer("memory_bytes", usage.memory_bytes).integer("processes", processes);
    }
    object = object.field("host", |out| host.write(out));
    if !gpus.is_empty() {
        object = object.field("gpus", |out| write_array(out, gpus, |out, gpu| out.extend_from_slice(gpu)));
    }
    match identity::object(object) {
        object if object.as_str().len() > TELEMETRY_BYTES && !gpus.is_empty() => telemetry(usage, host, &[]),
        object => object,
    }
}
