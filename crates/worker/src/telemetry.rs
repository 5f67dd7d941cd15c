//! What a worker measures and sends every 15 seconds: the processors and the memory that the run of each slot uses, from /proc, the machine,
//! and its GPUs. It is measured once for all slots. Nothing depends on it: what fails is left out, and sent the next time.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs;
use std::num::NonZero;
use std::path::Path;
use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::Duration;

use parking_lot::Mutex;
use taskqueue_client::{JsonObject, WorkerId};
use taskqueue_core::json::{ObjectWriter, write_array};
use taskqueue_core::limits::TELEMETRY_BYTES;
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::{Instant, sleep, timeout};

use crate::handler::Event;
use crate::process::proc::{self, ProcessEntry};
use crate::process::start::{capture_output, find_program};
use crate::settings::jittered;
use crate::worker::{WorkerContext, object_of};

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
            self.send_telemetry(measuring.measure(&self).await).await;
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
        let slots = context.measured_slots.lock().clone();
        let Some(mut usages) = take_usages(&slots).await else { return Vec::new() };
        if usages.iter().any(|(id, (run, _))| self.earlier.get(id).is_none_or(|(earlier, _)| earlier != run)) {
            self.keep_earlier(usages);
            sleep(FIRST_SPAN).await;
            let Some(again) = take_usages(&slots).await else { return Vec::new() };
            usages = again;
        }
        let Ok(host) = spawn_blocking(HostUsage::measure).await else { return Vec::new() };
        let measured = slots.iter().map(|(id, _)| {
            let usage = usages.get(id).map(|(run, usage)| {
                let earlier = self.earlier.get(id).filter(|(earlier, _)| earlier == run);
                (usage, earlier.map(|(_, earlier)| usage.cpu_percent_since(earlier)))
            });
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

    async fn gpus(&mut self, context: &WorkerContext) -> Vec<Gpu> {
        if self.no_gpus_until.is_some_and(|time| Instant::now() < time) {
            return Vec::new();
        }
        match query_gpus().await {
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
        object = object.optional(cpu_percent, |object, percent| object.json("cpu_percent", &format!("{percent:.1}")));
        let processes = i64::try_from(usage.processes).unwrap_or(i64::MAX);
        object = object.integer("memory_bytes", usage.memory_bytes).integer("processes", processes);
    }
    object = object.field("host", |out| host.write(out));
    if !gpus.is_empty() {
        object = object.field("gpus", |out| write_array(out, gpus, |out, gpu| out.extend_from_slice(gpu)));
    }
    match object_of(object) {
        object if object.as_str().len() > TELEMETRY_BYTES && !gpus.is_empty() => telemetry(usage, host, &[]),
        object => object,
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct HostUsage {
    cpus: usize,
    load1: Option<f64>,
    /// All of it, and what is not available to programs.
    memory: Option<(u64, u64)>,
}

impl HostUsage {
    /// Blocks, but not for long.
    pub(super) fn measure() -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let (load1, memory) = (load1(&read("/proc/loadavg")), memory(&read("/proc/meminfo")));
        Self { cpus: available_parallelism().map_or(1, NonZero::get), load1, memory }
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) {
        let object = ObjectWriter::append_to(out).integer("cpus", i64::try_from(self.cpus).unwrap_or(0));
        let object = object.optional(self.load1, |object, load1| object.json("load1", &format!("{load1:.2}")));
        let object = object.optional(self.memory, |object, (total, used)| {
            object.integer("memory_bytes", total).integer("memory_used_bytes", used)
        });
        object.end();
    }
}

fn load1(loadavg: &str) -> Option<f64> {
    loadavg.split(' ').next()?.parse().ok().filter(|load: &f64| load.is_finite())
}

fn memory(meminfo: &str) -> Option<(u64, u64)> {
    let bytes = |name: &str| {
        let line = meminfo.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        line.trim().strip_suffix(" kB")?.parse::<u64>().ok()?.checked_mul(1024)
    };
    let total = bytes("MemTotal")?;
    Some((total, total.saturating_sub(bytes("MemAvailable")?)))
}

const PROGRAM: &str = "nvidia-smi";
const ARGUMENTS: [&str; 2] = [
    "--query-gpu=index,name,utilization.gpu,memory.used,memory.total,temperature.gpu",
    "--format=csv,noheader,nounits",
];
/// It takes half a second on a healthy machine, and hangs on one with a broken driver.
const TIMEOUT: Duration = Duration::from_secs(5);
/// More than any machine has GPUs: a line is about 60 bytes.
const MOST_BYTES: u64 = 16 * 1024;
const MOST_GPUS: usize = 64;
const MIB: i64 = 1024 * 1024;

/// A GPU as JSON.
pub(super) type Gpu = Vec<u8>;

/// The GPUs, or none if there is no `nvidia-smi`.
///
/// # Errors
///
/// There is one, but it does not work.
pub(super) async fn query_gpus() -> Result<Vec<Gpu>, String> {
    let Ok(program) = find_program(OsStr::new(PROGRAM)) else { return Ok(Vec::new()) };
    query(&program).await
}

async fn query(program: &Path) -> Result<Vec<Gpu>, String> {
    let printed = capture_output(program, &ARGUMENTS, TIMEOUT, MOST_BYTES).await?;
    Ok(parse(&String::from_utf8_lossy(&printed)))
}

/// Lines that are not those of a GPU are left out, and so are values such as `[N/A]`.
fn parse(text: &str) -> Vec<Gpu> {
    text.lines().filter_map(parse_line).take(MOST_GPUS).collect()
}

fn parse_line(line: &str) -> Option<Gpu> {
    // A name may contain a comma.
    let (index, rest) = line.split_once(',')?;
    let mut fields = rest.rsplitn(5, ',').map(str::trim);
    let mut number = || fields.next().map(|field| field.parse::<f64>().ok().filter(|number| number.is_finite()));
    let [temperature, total, used, utilization] = [number()?, number()?, number()?, number()?];
    let whole = |number: f64| number.round() as i64;
    let bytes = |mib: f64| whole(mib).saturating_mul(MIB);
    let name: String = fields.next()?.chars().filter(|character| !character.is_control()).take(100).collect();
    let gpu = ObjectWriter::new().integer("index", index.trim().parse::<i64>().ok()?).text("name", &name);
    let figures = [
        ("utilization_percent", utilization.map(whole)),
        ("memory_used_bytes", used.map(bytes)),
        ("memory_total_bytes", total.map(bytes)),
        ("temperature_celsius", temperature.map(whole)),
    ];
    let known = figures.into_iter().filter_map(|(name, value)| Some((name, value?)));
    Some(known.fold(gpu, |gpu, (name, value)| gpu.integer(name, value)).end())
}

/// The processes of the run in a slot: those below its supervisor.
#[derive(Clone, Debug, Default)]
pub struct RunProcesses(Arc<Mutex<SlotRun>>);

#[derive(Clone, Copy, Debug, Default)]
struct SlotRun {
    supervisor: Option<i32>,
    /// The number of runs until now: a supervisor is used again.
    count: u64,
}

/// The number of a run in its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RunNumber {
    supervisor: i32,
    count: u64,
}

/// The run has ended when this is dropped.
#[derive(Debug)]
pub(crate) struct RunGuard(RunProcesses);

impl RunProcesses {
    pub(crate) fn begin(&self, supervisor: i32) -> RunGuard {
        let mut present = self.0.lock();
        *present = SlotRun { supervisor: Some(supervisor), count: present.count + 1 };
        RunGuard(self.clone())
    }

    pub(super) fn present(&self) -> Option<RunNumber> {
        let SlotRun { supervisor, count } = *self.0.lock();
        supervisor.map(|supervisor| RunNumber { supervisor, count })
    }
}

impl Drop for RunGuard {
    fn drop(&mut self) {
        self.0.0.lock().supervisor = None;
    }
}

/// All processes of the machine at one moment.
#[derive(Debug)]
pub(super) struct Snapshot {
    at: Instant,
    used: HashMap<i32, ProcessEntry>,
    children: HashMap<i32, Vec<i32>>,
}

/// The usage of the processes of a run until a moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct RunUsage {
    at: Instant,
    ticks: u64,
    /// The ticks are those of the time before, because there were less.
    has_old_ticks: bool,
    pub(super) memory_bytes: u64,
    pub(super) processes: usize,
}

impl Snapshot {
    /// Blocks: about 10 µs per process of the machine.
    pub(super) fn take() -> Self {
        Self::of(Instant::now(), &proc::all())
    }

    fn of(at: Instant, processes: &[ProcessEntry]) -> Self {
        let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
        processes.iter().for_each(|process| children.entry(process.parent).or_default().push(process.pid));
        Self { at, used: processes.iter().map(|process| (process.pid, *process)).collect(), children }
    }

    /// Returns the usage of the processes below a supervisor; `None` if it cannot be seen.
    pub(super) fn usage(&self, run: RunNumber) -> Option<RunUsage> {
        let supervisor = self.used.get(&run.supervisor)?;
        // What the supervisor has reaped was of this run, or of one before, which does not matter: only differences count.
        let (mut ticks, mut pages, mut processes) = (supervisor.ended_ticks, 0, 0);
        let mut waiting = self.children.get(&run.supervisor).cloned().unwrap_or_default();
        while let Some(pid) = waiting.pop() {
            // With reused pids there could be a cycle.
            if processes > self.used.len() {
                return None;
            }
            if let Some(used) = self.used.get(&pid) {
                ticks += used.ticks + used.ended_ticks;
                pages += used.resident_pages;
                processes += 1;
            }
            waiting.extend(self.children.get(&pid).into_iter().flatten());
        }
        let memory_bytes = pages * rustix::param::page_size() as u64;
        Some(RunUsage { at: self.at, ticks, has_old_ticks: false, memory_bytes, processes })
    }
}

impl RunUsage {
    /// Returns the usage from which the next one is measured. A process that ends while /proc is read is seen neither itself nor in the sum of its parent.
    /// If hours of its time came back the next time, they would count as used meanwhile. Who does not come back was never waited for.
    pub(super) fn as_earlier(self, before: Option<&Self>) -> Self {
        match before {
            Some(before) if self.ticks < before.ticks && !before.has_old_ticks => {
                Self { ticks: before.ticks, has_old_ticks: true, ..self }
            }
            _ => self,
        }
    }

    /// The use of processors since an earlier moment: 100 is one of them.
    pub(super) fn cpu_percent_since(&self, earlier: &Self) -> f64 {
        let seconds = self.at.duration_since(earlier.at).as_secs_f64();
        let ticks = self.ticks.saturating_sub(earlier.ticks) as f64;
        if seconds > 0.0 { ticks / rustix::param::clock_ticks_per_second() as f64 / seconds * 100.0 } else { 0.0 }
    }
}

/// The slots of a worker, each with the processes of its run.
pub(crate) type MeasuredSlots = Mutex<Vec<(WorkerId, RunProcesses)>>;

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_machine_is_read_from_proc() {
        let meminfo = "MemTotal:       1000 kB\nMemFree:         10 kB\nMemAvailable:    400 kB\n";
        assert_eq!(memory(meminfo), Some((1_024_000, 614_400)));
        assert_eq!((memory(""), memory("MemTotal: x kB\n")), (None, None));
        assert_eq!((load1("1.50 0.90 0.70 1/100 5\n"), load1("")), (Some(1.5), None));
        let mut out = Vec::new();
        HostUsage { cpus: 8, load1: Some(1.5), memory: Some((1000, 400)) }.write(&mut out);
        let expected = r#"{"cpus":8,"load1":1.50,"memory_bytes":1000,"memory_used_bytes":400}"#;
        assert_eq!(String::from_utf8(out).unwrap(), expected);
        let here = HostUsage::measure();
        assert!(here.cpus > 0 && here.memory.is_some_and(|(total, used)| used < total), "{here:?}");
    }

    fn text(gpus: &[Gpu]) -> Vec<String> {
        gpus.iter().map(|gpu| String::from_utf8(gpu.clone()).unwrap()).collect()
    }

    #[test]
    fn each_line_is_a_gpu() {
        let two = "0, NVIDIA A100-SXM4-80GB, 97, 40536, 81920, 71\n1, Tesla T4, 0, 2, 15360, 35\n";
        let expected = [
            r#"{"index":0,"name":"NVIDIA A100-SXM4-80GB","utilization_percent":97,"memory_used_bytes":42505076736,"memory_total_bytes":85899345920,"temperature_celsius":71}"#,
            r#"{"index":1,"name":"Tesla T4","utilization_percent":0,"memory_used_bytes":2097152,"memory_total_bytes":16106127360,"temperature_celsius":35}"#,
        ];
        assert_eq!(text(&parse(two)), expected);
    }

    #[test]
    fn values_that_a_gpu_does_not_have_are_left_out() {
        let line = "3, NVIDIA, GB10, [N/A], [Not Supported], 100, \n";
        assert_eq!(text(&parse(line)), [r#"{"index":3,"name":"NVIDIA, GB10","memory_total_bytes":104857600}"#]);
    }

    #[test]
    fn what_is_no_gpu_is_none() {
        for garbage in ["", "\n\n", "No devices were found\n", "a,b,c,d,e,f\n", "0, x, 1\n", "\0\u{1b}[31m,,,,,,,\n"] {
            assert!(parse(garbage).is_empty(), "{garbage:?}");
        }
        let many: String = (0..1000).map(|index| format!("{index}, x, 1, 2, 3, 4\n")).collect();
        assert_eq!(parse(&many).len(), MOST_GPUS);
        let huge = text(&parse("0, x, 1e300, 1e300, nan, inf\n"))[0].clone();
        assert!(huge.contains("utilization_percent") && !huge.contains("memory_total"), "{huge}");
    }

    /// Asks a program that does this instead of `nvidia-smi`.
    async fn stand_in(script: &str) -> Result<Vec<Gpu>, String> {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join(PROGRAM);
        fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o700)).unwrap();
        query(&program).await
    }

    #[tokio::test]
    async fn the_program_is_asked_for_exactly_this() {
        let script = r#"[ "$1 $2" = "--query-gpu=index,name,utilization.gpu,memory.used,memory.total,temperature.gpu --format=csv,noheader,nounits" ] && echo "0, x, 1, 2, 3, 4""#;
        assert_eq!(stand_in(script).await.unwrap().len(), 1);
    }

    #[tokio::test]
    async fn a_program_that_fails_or_prints_without_end_says_so() {
        assert!(stand_in("echo oops >&2; exit 1").await.unwrap_err().contains("exit status: 1"));
        let said = stand_in("exec yes").await.unwrap_err();
        assert!(said.contains("signal: 13"), "{said}");
        assert!(query(Path::new("/no/such/program")).await.is_err());
    }

    #[tokio::test]
    async fn a_program_that_hangs_is_killed() {
        let begin = Instant::now();
        let said = stand_in("trap '' TERM; sleep 1000 & wait").await.unwrap_err();
        assert!(said.contains("did not end within 5 s") && begin.elapsed() < Duration::from_secs(20), "{said}");
    }

    fn used(parent: i32, ticks: u64, ended_ticks: u64, resident_pages: u64) -> ProcessEntry {
        ProcessEntry { parent, ticks, ended_ticks, resident_pages, ..ProcessEntry::default() }
    }

    fn snapshot(at: Instant, used: &[(i32, ProcessEntry)]) -> Snapshot {
        let processes: Vec<ProcessEntry> = used.iter().map(|(pid, used)| ProcessEntry { pid: *pid, ..*used }).collect();
        Snapshot::of(at, &processes)
    }

    #[test]
    fn the_whole_tree_counts_and_what_ended_meanwhile_too() {
        let run = RunNumber { supervisor: 10, count: 1 };
        let (begin, second) = (Instant::now(), Duration::from_secs(1));
        let (hz, page) = (rustix::param::clock_ticks_per_second(), rustix::param::page_size() as u64);
        // The supervisor, the command, its child with a grandchild, and somebody else.
        let earlier = snapshot(
            begin,
            &[(10, used(1, 5, 70, 9)), (11, used(10, 0, 0, 100)), (12, used(11, hz, 0, 50)), (99, used(1, 9, 9, 9))],
        );
        // 12 has ended after another half second, and its parent has reaped it; 13 is an orphan that the supervisor has adopted.
        let later = snapshot(
            begin + second,
            &[
                (10, used(1, 6, 70, 9)),
                (11, used(10, 0, hz + hz / 2, 100)),
                (13, used(10, hz, 0, 20)),
                (99, used(1, 99, 9, 9)),
            ],
        );
        let [earlier, later] = [earlier, later].map(|snapshot| snapshot.usage(run).unwrap());
        assert_eq!((earlier.memory_bytes, earlier.processes), (150 * page, 2));
        assert_eq!((later.memory_bytes, later.processes), (120 * page, 2));
        assert!((later.cpu_percent_since(&earlier) - 150.0).abs() < 1e-6, "{}", later.cpu_percent_since(&earlier));
        assert!(snapshot(begin, &[]).usage(run).is_none());
        let cycle = snapshot(begin, &[(10, used(1, 0, 0, 0)), (11, used(10, 0, 0, 0)), (12, used(12, 0, 0, 0))]);
        assert_eq!(cycle.usage(run).unwrap().processes, 1);
    }

    #[test]
    fn a_process_that_was_overlooked_once_is_not_counted_as_used_at_once() {
        let (begin, hz) = (Instant::now(), rustix::param::clock_ticks_per_second());
        let usage = |second, ticks| {
            let at = begin + Duration::from_secs(second);
            RunUsage { at, ticks, has_old_ticks: false, memory_bytes: 0, processes: 1 }
        };
        let before = usage(0, 10_000 * hz);
        let overlooked = usage(15, 0).as_earlier(Some(&before));
        let percent = usage(30, 10_030 * hz).cpu_percent_since(&overlooked);
        assert!((percent - 200.0).abs() < 1e-6, "{percent}");
        let gone = usage(30, 15 * hz).as_earlier(Some(&overlooked));
        let percent = usage(45, 30 * hz).cpu_percent_since(&gone);
        assert!((percent - 100.0).abs() < 1e-6, "{percent}");
    }

    #[test]
    fn each_run_of_a_slot_has_its_own_number() {
        let processes = RunProcesses::default();
        assert_eq!(processes.present(), None);
        let first = processes.begin(10);
        let number = processes.present();
        drop(first);
        assert_eq!(processes.present(), None);
        let _second = processes.begin(10);
        assert_ne!(processes.present(), number);
    }

    #[test]
    fn this_process_uses_memory() {
        let snapshot = Snapshot::take();
        let own = proc::own_pid();
        assert!(snapshot.used[&own].resident_pages > 0);
    }
}
