//! Random commands over small pools of queues, tasks, runs and workers, so that replays, conflicts, stale runs and empty
//! claims happen all the time; and random time, with and without scans.

use super::filters::{filter_text, json, name};
use super::prelude::*;

/// The queues that commands are about; the last one is seldom there.
pub const QUEUES: [&str; 3] = ["q", "r", "s"];
const ROUTES: [&[&str]; 5] = [&["default"], &["a"], &["a", "b"], &["B", "default"], &["b"]];
const OUTPUT_TEXTS: [&str; 8] = ["", "a", "b\n", "é", "\u{20ac}uro", "x😀", "\0", "0123456789abcdef"];
const TASKS: usize = 8;
const WORKERS: usize = 4;

/// What happens next.
#[derive(Clone, Debug)]
pub enum Step {
    Write(AnyCommand),
    /// Time passes, in microseconds, without a scan.
    Pass(i64),
    /// Seconds pass, with a scan every five.
    Live(i64),
    /// The store is closed and opened again, if its storage can.
    Reopen,
}

/// The generator. It learns from the answers which runs there are, because a random run id would meet nothing.
pub struct Generator {
    random: Random,
    runs: Vec<(QueueName, TaskId, usize)>,
    last_run: usize,
    /// About how long the history lasts.
    passed_seconds: i64,
    has_dependencies: bool,
}

impl Generator {
    /// The steps of this seed.
    pub fn new(seed: u64) -> Self {
        Self { random: Random::new(seed), runs: Vec::new(), last_run: 0, passed_seconds: 0, has_dependencies: true }
    }

    /// The same without dependencies, for tests of which an action changes one task and no other.
    pub fn without_dependencies(seed: u64) -> Self {
        Self { has_dependencies: false, ..Self::new(seed) }
    }

    /// The source of randomness, for what is asked between the steps.
    pub fn random(&mut self) -> &mut Random {
        &mut self.random
    }

    /// The next step.
    pub fn step(&mut self) -> Step {
        let step = self.next_step();
        match step {
            Step::Pass(micros) => self.passed_seconds += micros / 1_000_000,
            Step::Live(seconds) => self.passed_seconds += seconds,
            Step::Write(_) | Step::Reopen => {}
        }
        step
    }

    fn next_step(&mut self) -> Step {
        match self.random.below(100) {
            0..=5 => Step::Pass(self.random.pick(&[1, 1_000, 1_000_000])),
            6..=8 => Step::Live(self.random.pick(&[1, 5, 60, 290, 310])),
            9 => Step::Pass(self.random.pick(&[16_000_000, 299_000_000, 400_000_000])),
            10 => Step::Reopen,
            _ => Step::Write(self.command()),
        }
    }

    /// The queue of a command: mostly the first one.
    pub fn queue(&mut self) -> QueueName {
        let name = if self.random.percent(85) { QUEUES[0] } else { self.random.pick(&QUEUES) };
        queue(name)
    }

    fn task(&mut self) -> TaskId {
        task_id(self.random.below(TASKS))
    }

    fn command(&mut self) -> AnyCommand {
        let queue = self.queue();
        match self.random.below(100) {
            0 => CreateQueue { queue, retention: self.retention() }.into(),
            1 => ChangeSettings { queue, patch: Box::new(self.settings()) }.into(),
            2 => Upkeep.into(),
            3 => DeleteQueue { queue, cascade: self.random.percent(60) }.into(),
            4..=8 => CreateTasks { queue, tasks: self.several(Self::new_task).into() }.into(),
            9..=22 => {
                let (id, new) = self.new_task();
                CreateTask { queue, id, new }.into()
            }
            23..=32 => UpdateTask { queue, id: self.task(), update: Box::new(self.update()) }.into(),
            33..=37 => self.bulk_update(queue).into(),
            38..=40 => self.bulk_action(queue).into(),
            41..=49 => {
                let kind = self.random.below(8);
                let id = self.task();
                match kind {
                    0..=2 => ActOnTask { queue, id, action: TaskAction::Cancel }.into(),
                    3..=5 => ActOnTask { queue, id, action: TaskAction::Requeue }.into(),
                    _ => DeleteTask { queue, id }.into(),
                }
            }
            50..=54 => self.claims(queue).into(),
            55..=69 => {
                let run = self.run_to_claim();
                let (route, worker) = (self.route(), self.worker());
                Claim { queue, route, run_id: run_id(run), worker }.into()
            }
            70..=72 => {
                let reports = self.several(|generator| generator.report().1);
                let queue =
                    if self.random.percent(90) { self.recent_run().map_or(queue, |(own, ..)| own) } else { queue };
                ReportRuns { queue, reports: reports.into() }.into()
            }
            73..=79 => self.output(queue).into(),
            80..=91 => {
                let (own_queue, item) = self.report();
                AnyCommand::of_item(own_queue.unwrap_or(queue), item)
            }
            92 | 93 => {
                let telemetry = json(&mut self.random);
                ReportTelemetry { queue, id: worker_id(self.random.below(WORKERS)), telemetry }.into()
            }
            94 | 95 => {
                let report = Report {
                    route: route(self.random.pick(&["a", "B"])),
                    status: self.random.pick(&WorkerStatus::ALL),
                    task_id: self.random.percent(50).then(|| self.task()),
                    metadata: self.random.pick(&[JsonObject::empty(), object(r#"{"gpu":1}"#)]),
                };
                ReportWorker { queue, id: worker_id(self.random.below(WORKERS)), report }.into()
            }
            96 => WithdrawWorker { queue, id: worker_id(self.random.below(WORKERS)) }.into(),
            _ => Scan.into(),
        }
    }

    /// The next bulk update, for tests that are about one each time.
    pub fn bulk_update(&mut self, queue: QueueName) -> BulkUpdate {
        let filter = task_filter(&filter_text(&mut self.random, 1));
        let include_archived = self.random.percent(30);
        BulkUpdate { queue, selection: Update::selection(filter, include_archived), update: self.update() }
    }

    /// The next bulk action, likewise.
    pub fn bulk_action(&mut self, queue: QueueName) -> ActOnTasks {
        let filter = task_filter(&filter_text(&mut self.random, 1));
        let expect = self.random.percent(20).then(|| self.random.below(4) as u64);
        let (action, dry_run) = (self.random.pick(&BulkAction::ALL), self.random.percent(10));
        let selection = action.selection(filter, self.random.percent(30));
        ActOnTasks { queue, action, selection, expect, dry_run }
    }

    /// Few different definitions for each id, so that creations replay and conflict.
    fn definition(&mut self) -> Definition {
        if self.random.percent(50) {
            return Definition::default();
        }
        Definition {
            name: name(&mut self.random).map(Into::into),
            args: json(&mut self.random),
            metadata: json(&mut self.random),
            priority: self.random.pick(&[0, 0, 1, -1, i64::MAX, i64::MIN]),
            max_attempts: self.random.pick(&[1, 2, 3]),
            routes: routes(self.random.pick(&ROUTES)),
            scheduling: self.scheduling().into(),
        }
    }

    /// Often nothing. Tasks wait for few others of the same pool, themselves among them.
    fn scheduling(&mut self) -> SchedulingFields {
        if self.random.percent(40) {
            return SchedulingFields::default();
        }
        let on_dependency_failure = self.random.pick(&OnDependencyFailure::ALL);
        SchedulingFields {
            retry_delay: self.retry_delay(),
            timeout_seconds: self.timeout_seconds(),
            dependencies: self.dependencies(),
            on_dependency_failure,
        }
    }

    /// A value in that many of a hundred cases.
    fn maybe<T>(&mut self, percent: usize, value: impl FnOnce(&mut Self) -> T) -> Option<T> {
        self.random.percent(percent).then(|| value(self))
    }

    fn retry_delay(&mut self) -> Option<RetryDelay> {
        let seconds = self.random.pick(&[0.0, 0.5, 7.0]);
        self.maybe(30, |_| RetryDelay::new(seconds, None, Some(60.0)).unwrap())
    }

    fn timeout_seconds(&mut self) -> Option<i64> {
        self.maybe(30, |own| own.random.pick(&[1, 30, 600]))
    }

    fn dependencies(&mut self) -> Dependencies {
        let count = if self.has_dependencies { self.random.pick(&[0, 0, 1, 1, 2, 4]) } else { 0 };
        Dependencies::new((0..count).map(|_| self.task()).collect()).unwrap()
    }

    /// Before, at or after the present: time passes in steps of these.
    fn not_before(&mut self) -> Option<Timestamp> {
        let seconds = self.random.pick(&[-1, 0, 1, 5, 60, 400]);
        self.random.percent(20).then(|| START.plus_seconds(self.passed_seconds + seconds))
    }

    /// Of a new queue; mostly the default.
    fn retention(&mut self) -> Retention {
        let failed_seconds = self.random.percent(30).then_some(60);
        Retention { failed_seconds, ..Retention::default() }
    }

    fn settings(&mut self) -> SettingsPatch {
        // Often back to the default, or nothing would be claimed any more.
        if self.random.percent(35) {
            let [succeeded_seconds, failed_seconds, cancelled_seconds] = [Some(None); 3];
            let retention = RetentionPatch { succeeded_seconds, failed_seconds, cancelled_seconds };
            let route_limits = RouteLimitsPatch::Clear;
            return SettingsPatch { paused: Some(false), max_running: Some(None), route_limits, retention };
        }
        SettingsPatch {
            paused: self.maybe(25, |own| own.random.percent(30)),
            max_running: self.maybe(25, Self::limit),
            route_limits: match self.random.below(8) {
                0 => RouteLimitsPatch::Clear,
                1 | 2 => RouteLimitsPatch::Merge([(self.route(), self.limit())].into()),
                _ => RouteLimitsPatch::default(),
            },
            retention: RetentionPatch {
                succeeded_seconds: self.maybe(20, Self::kept_seconds),
                failed_seconds: self.maybe(20, Self::kept_seconds),
                cancelled_seconds: self.maybe(20, Self::kept_seconds),
            },
        }
    }

    fn limit(&mut self) -> Option<u64> {
        self.random.pick(&[None, Some(0), Some(1), Some(2), Some(3)])
    }

    fn kept_seconds(&mut self) -> Option<u64> {
        self.random.pick(&[None, Some(0), Some(5), Some(400)])
    }

    fn update(&mut self) -> Update {
        let args = self.maybe(30, |own| json(&mut own.random));
        let metadata = self.maybe(20, |own| json(&mut own.random));
        Update {
            name: self.maybe(30, |own| name(&mut own.random).map(Into::into)),
            args_patch: self.maybe(30, |own| json(&mut own.random)).filter(|_| args.is_none()),
            metadata_patch: self.maybe(20, |own| json(&mut own.random)).filter(|_| metadata.is_none()),
            priority: self.maybe(40, |own| own.random.pick(&[0, 1, -1, i64::MAX])),
            max_attempts: self.maybe(20, |own| own.random.pick(&[1, 2, 3, i64::MAX])),
            routes: self.maybe(40, |own| routes(own.random.pick(&ROUTES))),
            result: self.maybe(20, |own| json(&mut own.random)),
            not_before: self.maybe(10, Self::not_before),
            retry_delay: self.maybe(10, Self::retry_delay),
            timeout_seconds: self.maybe(10, Self::timeout_seconds),
            dependencies: self.maybe(15, Self::dependencies),
            on_dependency_failure: self.maybe(10, |own| own.random.pick(&OnDependencyFailure::ALL)),
            archived: self.maybe(15, |own| own.random.percent(70)),
            args,
            metadata,
        }
    }

    fn run_to_claim(&mut self) -> usize {
        match self.recent_run() {
            Some((.., run)) if self.random.percent(25) => run,
            _ => {
                self.last_run += 1;
                self.last_run
            }
        }
    }

    /// A run of the recent past, more likely a younger one.
    fn recent_run(&mut self) -> Option<(QueueName, TaskId, usize)> {
        let back = self.random.below(6).min(self.random.below(6));
        self.runs.iter().rev().nth(back).cloned()
    }

    /// A report of a recent run, and the queue of its task; sometimes about another task.
    fn report(&mut self) -> (Option<QueueName>, RunItem) {
        let (mut queue, mut id, run) = match self.recent_run() {
            Some((queue, id, run)) => (Some(queue), id, run),
            None => (None, task_id(0), 0),
        };
        if self.random.percent(5) {
            (queue, id) = (None, self.task());
        }
        let report = match self.random.below(11) {
            0 | 1 => {
                let progress = self.random.percent(40).then(|| self.progress());
                return (
                    queue,
                    RunItem { task_id: id, run_id: run_id(run), action: RunAction::Heartbeat { progress } },
                );
            }
            9 | 10 => {
                let progress = self.progress();
                return (queue, RunItem { task_id: id, run_id: run_id(run), action: RunAction::Progress { progress } });
            }
            2 | 3 if self.random.percent(3) => RunReport::Complete { result: args_beyond_the_limit(1) },
            2 | 3 => RunReport::Complete { result: json(&mut self.random) },
            4..=6 => {
                let retry_after = self.delay();
                RunReport::Fail { failure: self.failure(), retry: self.random.percent(80), retry_after }
            }
            _ => RunReport::Unclaim { delay: self.delay() },
        };
        (queue, RunItem { task_id: id, run_id: run_id(run), action: RunAction::End(report) })
    }

    fn delay(&mut self) -> Option<Duration> {
        let seconds = self.random.pick(&[0, 1, 30]);
        self.random.percent(20).then(|| Duration::from_secs(seconds))
    }

    fn progress(&mut self) -> JsonObject {
        if self.random.percent(2) { args_beyond_the_limit(1) } else { json(&mut self.random) }
    }

    /// Output of a recent run around few places, so that texts repeat, overlap, leave gaps and fill them.
    fn output(&mut self, queue: QueueName) -> AddOutput {
        let (queue, id, run) = self.recent_run().unwrap_or((queue, task_id(0), 0));
        let id = if self.random.percent(5) { self.task() } else { id };
        let text = self.random.pick(&OUTPUT_TEXTS).repeat(self.random.pick(&[1, 1, 2, 7]));
        let last = i64::MAX as u64 - text.len() as u64;
        let offset = match self.random.below(40) {
            0 => last,
            1 => last - self.random.below(20) as u64,
            2 => 1_000_000,
            _ => {
                let places = self.random.pick(&[4, 40, 300]);
                self.random.below(places) as u64
            }
        };
        let most_bytes = self.random.pick(&[0, 1, 10, 50, 1_000, 1_000, 1_000]);
        AddOutput { queue, id, run_id: run_id(run), offset, text: text.into(), most_bytes }
    }

    /// A few items: often more than one for the same task.
    fn several<A>(&mut self, item: impl Fn(&mut Self) -> A) -> Vec<A> {
        let items = 1 + self.random.below(12).min(self.random.below(12));
        (0..items).map(|_| item(self)).collect()
    }

    fn new_task(&mut self) -> (TaskId, Box<NewTask>) {
        let mut definition = self.definition();
        if self.random.percent(2) {
            definition.args = args_beyond_the_limit(usize::from(self.random.percent(70)));
        }
        let not_before = self.not_before();
        (self.task(), Box::new(NewTask::new(definition, not_before)))
    }

    fn route(&mut self) -> Route {
        route(self.random.pick(&["default", "a", "b", "B"]))
    }

    fn worker(&mut self) -> Option<JsonObject> {
        self.random.percent(40).then(|| json(&mut self.random))
    }

    /// New, active and past runs; in most commands all tasks fit.
    fn claims(&mut self, queue: QueueName) -> ClaimTasks {
        let run_ids = self.several(|generator| run_id(generator.run_to_claim()));
        let most_bytes = self.random.pick(&[0, 40, 120, 1_000_000, usize::MAX]);
        let (route, worker) = (self.route(), self.worker());
        let has_own = self.random.percent(30);
        let workers = if has_own { run_ids.iter().map(|_| json(&mut self.random)).collect() } else { Vec::new() };
        ClaimTasks { queue, route, run_ids, worker, workers, measure: bytes_of_args, most_bytes }
    }

    fn failure(&mut self) -> Failure {
        let texts = ["", "a", "b", "é", "a\0b"];
        Failure {
            kind: self.random.pick(&texts).into(),
            message: self.random.pick(&texts).into(),
            traceback: self.random.percent(50).then(|| self.random.pick(&texts).into()),
        }
    }

    fn learn_run(&mut self, claimed: &Claimed) {
        let run = claimed.run_id.as_str()[2..].parse().unwrap();
        self.runs.retain(|(.., known)| *known != run);
        self.runs.push((claimed.task.queue.clone(), claimed.task.id, run));
    }

    /// Learns from an answer. Runs of deleted tasks are not used again: a store may forget them now, later or never.
    pub fn learn(&mut self, command: &AnyCommand, answer: &Result<AnyAnswer, StoreError>) {
        match (command, answer) {
            (_, Ok(AnyAnswer::Claimed(Some(claimed)))) => self.learn_run(claimed),
            (_, Ok(AnyAnswer::ClaimedItems(items))) => {
                items.iter().flatten().flatten().for_each(|claimed| self.learn_run(claimed))
            }
            (AnyCommand::DeleteTask(DeleteTask { queue, id }), Ok(_)) => {
                self.runs.retain(|(owner, task, _)| (owner, task) != (queue, id));
            }
            (AnyCommand::DeleteQueue(DeleteQueue { queue, .. }), Ok(_)) => {
                self.runs.retain(|(owner, ..)| owner != queue)
            }
            (AnyCommand::ActOnTasks(act), Ok(_)) if act.action == BulkAction::Delete => {
                self.runs.retain(|(owner, ..)| *owner != act.queue)
            }
            _ => {}
        }
    }
}
