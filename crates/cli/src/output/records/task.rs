//! A task: the row, the details and the JSON of the contract; for programs why it is not claimed; and how its progress is written for people:
//! the part that is done, the rate, the time that is left, and everything else that the run reported. What that means is decided in `core`.

use std::time::Duration;

use anstyle::AnsiColor;
use taskqueue_api::explain::write_members;
use taskqueue_client::{ExplainedReason, Explanation, LastError, LastRun, Status, Task, Timestamp};
use taskqueue_core::fields::{TaskField, optional_defined_fields};
use taskqueue_core::json::{JsonObject, ObjectWriter, Value, parse, write_array};
use taskqueue_core::progress::{Estimate, Reported};
use taskqueue_core::task_view::TaskView;
use taskqueue_core::time::between;
use taskqueue_core::words::{self, Units, exact_duration, span, step_rate};

use crate::field_path::{DURATION, FieldPath, WAITED, plain_text};
use crate::output::{Cell, Columns, Record, columns};

/// The width of the bar where a task is shown alone.
const BAR_WIDTH: usize = 30;

impl Record for Task {
    const COLUMNS: Columns = columns![
        text "ID", text "STATUS", shrinking "NAME", number "PRIORITY", number "ATTEMPT", shrinking "ROUTES",
        text "CREATED", text "UPDATED", with_values "NOTE" 10, with_values "PROGRESS" 5, with_values "ERROR" 10,
        shrinking "ARGS", with_values "RESULT" 16
    ];

    const LEAVE_OUT: &'static [&'static str] =
        &["RESULT", "PRIORITY", "CREATED", "ROUTES", "ARGS", "ATTEMPT", "UPDATED", "ERROR", "NOTE", "PROGRESS"];

    const FIELDS: &'static str = "id,queue,status,name,args,metadata,priority,attempt,max_attempts,routes,result,last_error.type,\
         last_error.message,last_route,created_at,updated_at,started_at,finished_at";

    fn cells(&self, now: Timestamp) -> Vec<Cell> {
        vec![
            Cell::new(self.id.as_str()),
            Cell::status(self.status),
            Cell::optional(self.name.as_deref()),
            Cell::number(self.priority),
            Cell::new(format!("{}/{}", self.attempt, self.max_attempts)),
            Cell::new(routes(self)),
            Cell::new(words::age(self.created_at, now)),
            Cell::new(words::age(self.updated_at, now)),
            Cell::optional(waiting_note(self, now)),
            Cell::optional(present_progress(self, now)),
            Cell::optional(error_type(self)),
            Cell::new(self.args.as_str()),
            Cell::optional((!self.result.is_empty_object()).then(|| self.result.as_str())),
        ]
    }

    fn write_json(&self, out: &mut Vec<u8>) {
        Self::write(out, &self.view());
    }

    fn key(&self) -> String {
        self.id.to_string()
    }

    /// The progress as a whole and times are shown as people want to know them.
    fn field_cell(&self, field: &FieldPath, now: Timestamp) -> Option<Cell> {
        match field.head.as_str() {
            "progress" => ProgressView::of(self, now).map(|view| Cell::new(view.short())),
            DURATION => run_time(self, now).map(|time| Cell::new(words::span(time.as_secs()))),
            WAITED => Some(Cell::new(words::span(waiting_time(self, now).as_secs()))),
            _ => None,
        }
    }

    fn computed(&self, now: Timestamp) -> Vec<(&'static str, Value<'static>)> {
        let seconds = |time: Duration| Value::Float(time.as_secs_f64());
        let duration = run_time(self, now).map(|time| (DURATION, seconds(time)));
        duration.into_iter().chain([(WAITED, seconds(waiting_time(self, now)))]).collect()
    }

    fn details(&self, now: Timestamp) -> Vec<(&'static str, Cell)> {
        let time = |at: Timestamp| format!("{at} ({})", words::age(at, now));
        let mut fields = vec![
            ("id", Cell::new(self.id.as_str())),
            ("queue", Cell::new(self.queue.as_str())),
            ("status", Cell::status(self.status)),
            ("name", Cell::optional(self.name.as_deref())),
            ("args", Cell::new(self.args.as_str())),
            ("metadata", Cell::new(self.metadata.as_str())),
            ("priority", Cell::number(self.priority)),
            ("attempt", Cell::new(format!("{} of {}", self.attempt, self.max_attempts))),
            ("routes", Cell::new(routes(self))),
        ];
        let waiting = scheduling_details(&self.view(), now);
        fields.extend(waiting.into_iter().map(|(name, words)| (name, Cell::new(words))));
        fields.extend(self.archived.then(|| ("archived", Cell::new("yes"))));
        fields.push(("result", Cell::new(self.result.as_str())));
        fields.extend(self.last_error.iter().flat_map(|error| error_details(error, &time(error.occurred_at))));
        fields.extend([
            ("last_route", Cell::optional(self.last_route.as_ref().map(|route| route.as_str()))),
            ("created_at", Cell::new(time(self.created_at))),
            ("updated_at", Cell::new(time(self.updated_at))),
            ("started_at", Cell::optional(self.started_at.map(time))),
            ("finished_at", Cell::optional(self.finished_at.map(time))),
        ]);
        fields.extend(self.last_run.iter().map(|run| ("last_run", Cell::new(last_run(run)))));
        fields.extend(log_place(self).map(|place| ("", Cell::new(place))));
        fields.extend(ProgressView::of(self, now).into_iter().flat_map(|view| progress_details(self, &view)));
        fields
    }
}

/// Returns how long the latest run took, or takes until now. A pending task has no run.
fn run_time(task: &Task, now: Timestamp) -> Option<Duration> {
    let start = task.started_at?;
    match task.status {
        Status::Pending => None,
        Status::Running => Some(between(start, now)),
        Status::Succeeded | Status::Failed | Status::Cancelled => Some(between(start, task.finished_at?)),
    }
}

/// Returns how long the task waited from its creation to its latest run or, without one, to its end; or waits until now.
fn waiting_time(task: &Task, now: Timestamp) -> Duration {
    let until = match task.status {
        Status::Pending => now,
        // What was cancelled before any run has no end of one.
        _ => task.started_at.or(task.finished_at).unwrap_or(task.updated_at),
    };
    between(task.created_at, until)
}

/// The type of the last error, unless the task has succeeded since.
fn error_type(task: &Task) -> Option<&str> {
    let error = task.last_error.as_ref().filter(|_| task.status != Status::Succeeded);
    error.map(|error| &*error.failure.kind)
}

fn routes(task: &Task) -> String {
    task.routes.iter().collect::<Vec<_>>().join(",")
}

/// The progress of a run that is under way; that of the others is history.
fn present_progress(task: &Task, now: Timestamp) -> Option<String> {
    let view = ProgressView::of(task, now).filter(|_| task.status == Status::Running)?;
    Some(view.short()).filter(|text| !text.is_empty())
}

/// The bar, what else the run said, and how old that is.
fn progress_details(task: &Task, view: &ProgressView) -> Vec<(&'static str, Cell)> {
    let bar = view.bar(BAR_WIDTH).map(|bar| format!("{bar} {}", view.measures()));
    let said = Some(view.said()).filter(|said| !said.is_empty());
    let age = match view.estimate.age_seconds {
        0 => "now".to_owned(),
        seconds => format!("{} ago", words::span(seconds)),
    };
    let attempt = task.progress_attempt.map(|attempt| format!("attempt {attempt}, ")).unwrap_or_default();
    let age = match view.estimate.is_old {
        true => Cell::new(format!("{attempt}{age}: nothing new since then")).coloured(AnsiColor::Yellow),
        false => Cell::new(format!("{attempt}{age}")),
    };
    let cells = bar.into_iter().chain(said).map(Cell::new).chain([age]);
    cells.enumerate().map(|(line, cell)| (if line == 0 { "progress" } else { "" }, cell)).collect()
}

/// `attempt 2, run r_..., by {"host": ...}`. The id of an active run is not known.
fn last_run(run: &LastRun) -> String {
    let run_id = run.run_id.map(|run_id| format!(", run {run_id}")).unwrap_or_default();
    format!("attempt {}{run_id}, by {}", run.attempt, run.worker.as_str())
}

/// Returns where the whole log of the latest run is: on the machine of its worker, in the folder of the run. Nothing if the worker does
/// not name its run directory.
pub(crate) fn log_place(task: &Task) -> Option<String> {
    let run = task.last_run.as_ref()?;
    let folder = format!("{}/{}", run.worker.text("folder")?, task.id);
    let host = run.worker.text("host").map(|host| format!("on {host}: ")).unwrap_or_default();
    // Not known while the run is active.
    Some(match run.run_id {
        Some(run_id) => format!("the full log is {host}output.log in the folder {folder}/{run_id}"),
        None => format!("the full log is {host}output.log below the folder {folder}"),
    })
}

fn error_details(error: &LastError, occurred_at: &str) -> Vec<(&'static str, Cell)> {
    let said = format!("{}: {}", error.failure.kind, error.failure.message);
    let when = format!("attempt {}, {occurred_at}", error.attempt);
    let mut fields = vec![("last_error", Cell::new(said)), ("", Cell::new(when))];
    let traceback = error.failure.traceback.iter().flat_map(|text| text.lines());
    fields.extend(traceback.map(|line| ("", Cell::new(line).dimmed())));
    fields
}

impl Record for Explanation {
    fn write_json(&self, out: &mut Vec<u8>) {
        ObjectWriter::append_to(out)
            .boolean("claimable", self.claimable)
            .field("reasons", |out| write_array(out, &self.reasons, |out, reason| reason.write_json(out)))
            .end();
    }
}

impl Record for ExplainedReason {
    const FIELDS: &'static str = "code,message";

    fn write_json(&self, out: &mut Vec<u8>) {
        let Self { code, message, reason } = self;
        let object = ObjectWriter::append_to(out).text("code", code).text("message", message);
        object.optional(reason.as_ref(), write_members).end();
    }
}

/// Returns why a task waits as far as it says that itself, or that it is archived: `from in 9m, after 3 tasks`. Nothing for most tasks.
/// Whether those that it comes after have succeeded is not known here; `task explain` tells.
fn waiting_note(task: &Task, now: Timestamp) -> Option<String> {
    let is_pending = task.status == Status::Pending;
    let until = task.not_before.filter(|not_before| is_pending && *not_before > now);
    let after = Some(task.scheduling.dependencies.len()).filter(|count| is_pending && *count > 0);
    let notes = [
        until.map(|until| format!("delayed, {}", words::age(until, now))),
        after.map(|count| format!("after {}", words::count(count as u64, "task"))),
        task.archived.then(|| "archived".to_owned()),
    ];
    let notes: Vec<String> = notes.into_iter().flatten().collect();
    (!notes.is_empty()).then(|| notes.join("; "))
}

/// Each optional field of its definition that a task uses, with its value in words.
pub(super) fn scheduling_details(task: &TaskView<'_>, now: Timestamp) -> Vec<(&'static str, String)> {
    let words = |field: &TaskField| Some((field.path, field.value(task)?.words(field.kind, now)));
    optional_defined_fields().filter_map(words).collect()
}

/// About how long something is kept or allowed, with its exact number of seconds where that says more.
pub(super) fn seconds_in_words(seconds: u64) -> String {
    let (exact, about) = (exact_duration(seconds as f64, Units::Typed), words::span(seconds));
    if exact.ends_with('s') && about != exact { format!("{exact} (about {about})") } else { exact }
}

/// The progress of a task at one moment.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ProgressView {
    pub(crate) estimate: Estimate,
    /// The members that the estimate does not use, with their values.
    others: Vec<(String, String)>,
}

impl ProgressView {
    /// Nothing if the task has no progress.
    pub(crate) fn of(task: &Task, now: Timestamp) -> Option<Self> {
        let (value, updated_at) = (task.progress.as_ref()?, task.progress_updated_at?);
        let is_running = task.status == Status::Running;
        let reported = Reported { value, updated_at, started_at: task.started_at, is_running };
        let estimate = Estimate::of(reported, now);
        Some(Self { others: others(value, estimate.used), estimate })
    }

    /// `42 %`; below the end never 100.
    pub(crate) fn percent(&self) -> Option<String> {
        self.estimate.percent().map(|percent| format!("{percent} %"))
    }

    /// `[=====>    ]` with so many characters between the brackets.
    pub(crate) fn bar(&self, width: usize) -> Option<String> {
        let filled = ((self.estimate.done? * width as f64).floor() as usize).min(width);
        let mut bar: String = "=".repeat(filled);
        if filled < width {
            bar.push('>');
        }
        Some(format!("[{bar:<width$}]"))
    }

    /// The text for a narrow column: `42 % (ETA 3m)`, or what the run said where there is no percentage.
    pub(crate) fn short(&self) -> String {
        match (self.percent(), self.eta()) {
            (Some(percent), Some(eta)) => format!("{percent} ({eta})"),
            (Some(percent), None) => percent,
            (None, _) => self.said(),
        }
    }

    /// `42 %  420/1000  3.5 steps/s  ETA 3m`: what is known of it.
    pub(crate) fn measures(&self) -> String {
        let steps = self.estimate.steps.as_ref().map(|(step, total)| format!("{step}/{total}"));
        let rate = self.estimate.step_seconds.and_then(|seconds| step_rate(seconds, Units::Typed));
        [self.percent(), steps, rate, self.eta()].into_iter().flatten().collect::<Vec<_>>().join("  ")
    }

    /// `loss=0.31 epoch=3`.
    pub(crate) fn said(&self) -> String {
        self.others.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(" ")
    }

    pub(crate) fn eta(&self) -> Option<String> {
        self.estimate.seconds_left.map(|seconds| format!("ETA {}", span(seconds)))
    }
}

/// The members besides those that are already shown as a measure.
fn others(progress: &JsonObject, used: &[&str]) -> Vec<(String, String)> {
    let Ok(Value::Object(members)) = parse(progress.as_str().as_bytes()) else { return Vec::new() };
    let shown = members.iter().filter(|(key, _)| !used.contains(&key.as_ref()));
    shown.map(|(key, value)| (key.to_string(), plain_text(value))).collect()
}

#[cfg(test)]
mod tests {
    use taskqueue_client::{Dependencies, JsonObject, RunId, SchedulingFields, TaskId};

    use super::*;
    use crate::live::tests::{TEST_TIME, task};

    #[test]
    fn a_task_that_was_cancelled_without_a_run_waits_no_longer() {
        let waited = |task: &Task, later: i64| waiting_time(task, TEST_TIME.plus_seconds(later)).as_secs();
        let pending = task(1);
        assert_eq!((waited(&pending, 0), waited(&pending, 100)), (60, 160));
        let cancelled = Task { status: Status::Cancelled, updated_at: TEST_TIME.plus_seconds(-20), ..task(1) };
        assert_eq!((waited(&cancelled, 0), waited(&cancelled, 100)), (40, 40));
    }

    fn ids(count: usize) -> Dependencies {
        Dependencies::new((0..count).map(|n| TaskId::parse(&format!("t_{n:0>12}")).unwrap()).collect()).unwrap()
    }

    #[test]
    fn a_note_says_what_a_task_waits_for_and_only_while_it_waits() {
        let plain = || task(1);
        let delayed = |seconds| Task { not_before: Some(TEST_TIME.plus_seconds(seconds)), ..plain() };
        let waiting = |count| SchedulingFields { dependencies: ids(count), ..SchedulingFields::default() };
        let after = |count| Task { scheduling: waiting(count).into(), ..delayed(600) };
        let cases = [
            (plain(), None),
            (delayed(600), Some("delayed, in 10m")),
            (delayed(-600), None),
            (after(1), Some("delayed, in 10m; after 1 task")),
            (Task { not_before: None, ..after(3) }, Some("after 3 tasks")),
            (Task { status: Status::Succeeded, ..after(3) }, None),
            (Task { status: Status::Failed, archived: true, ..plain() }, Some("archived")),
        ];
        for (task, expected) in cases {
            assert_eq!(waiting_note(&task, TEST_TIME).as_deref(), expected);
        }
    }

    #[test]
    fn durations_are_shown_as_they_were_typed() {
        assert_eq!(seconds_in_words(604_800), "7d");
        assert_eq!(seconds_in_words(100_000), "100000s (about 27h)");
    }

    fn shown(worker: &str, run_id: Option<&str>) -> Option<String> {
        let worker = JsonObject::from_canonical(worker);
        let last_run = LastRun { attempt: 1, worker, run_id: run_id.and_then(RunId::parse) };
        log_place(&Task { last_run: Some(last_run), ..task(1) })
    }

    #[test]
    fn the_log_is_named_as_far_as_the_worker_says_where_it_is() {
        let worker = r#"{"folder":"/data/runs","host":"gpu-3"}"#;
        let ended = "the full log is on gpu-3: output.log in the folder /data/runs/t_000000000001/r_run000000001";
        assert_eq!(shown(worker, Some("r_run000000001")).as_deref(), Some(ended));
        let active = "the full log is on gpu-3: output.log below the folder /data/runs/t_000000000001";
        assert_eq!(shown(worker, None).as_deref(), Some(active));
        assert_eq!(shown(r#"{"folder":"/x"}"#, None).unwrap().matches(" on ").count(), 0);
        for silent in [r#"{"host":"gpu-3"}"#, r#"{"folder":7,"host":"gpu-3"}"#, "{}"] {
            assert_eq!(shown(silent, Some("r_run000000001")), None, "{silent}");
        }
        assert_eq!(log_place(&task(1)), None);
    }

    /// A task that was claimed 100 seconds ago and said this 10 seconds ago.
    fn running(progress: &str) -> Task {
        Task {
            status: Status::Running,
            started_at: Some(TEST_TIME.plus_seconds(-110)),
            progress: Some(JsonObject::from_canonical(progress)),
            progress_updated_at: Some(TEST_TIME.plus_seconds(-10)),
            progress_attempt: Some(1),
            ..task(1)
        }
    }

    fn view(progress: &str) -> ProgressView {
        ProgressView::of(&running(progress), TEST_TIME).unwrap()
    }

    #[test]
    fn a_step_of_a_total_gives_the_part_the_rate_and_the_time_that_is_left() {
        let seen = view(r#"{"loss":0.31,"note":"warm up","step":200,"total":1000}"#);
        assert_eq!(seen.percent().as_deref(), Some("20 %"));
        let expected = "20 %  200/1000  2 steps/s  ETA 6m";
        assert_eq!(seen.measures(), expected, "400 seconds at this rate, of which 10 are over");
        assert_eq!(seen.said(), "loss=0.31 note=warm up");
        assert_eq!(seen.short(), "20 % (ETA 6m)");
        assert_eq!(seen.bar(10).as_deref(), Some("[==>       ]"));
        assert_eq!((seen.estimate.age_seconds, seen.estimate.is_old), (10, false));
    }

    #[test]
    fn a_percentage_alone_gives_a_bar_and_a_time_but_no_rate() {
        let seen = view(r#"{"percent":50.0}"#);
        assert_eq!((seen.measures().as_str(), seen.said().as_str()), ("50 %  ETA 90s", ""));
        assert_eq!(view(r#"{"percent":100}"#).bar(10).as_deref(), Some("[==========]"));
        assert_eq!(view(r#"{"step":0,"total":10}"#).bar(10).as_deref(), Some("[>         ]"));
        assert_eq!(view(r#"{"percent":50,"step":7}"#).said(), "step=7");
        assert_eq!(view(r#"{"percent":3,"step":9,"total":10}"#).percent().as_deref(), Some("90 %"), "steps count more");
    }

    #[test]
    fn what_cannot_be_makes_no_bar_and_is_shown_as_it_is() {
        let seen = view(r#"{"step":-1,"total":10}"#);
        assert_eq!((seen.bar(10), seen.measures(), seen.said()), (None, String::new(), "step=-1 total=10".to_owned()));
    }

    #[test]
    fn times_that_do_not_fit_together_give_no_rate() {
        let mut odd = running(r#"{"step":1,"total":2}"#);
        odd.started_at = Some(TEST_TIME);
        let seen = ProgressView::of(&odd, TEST_TIME.plus_seconds(-3600)).unwrap().estimate;
        assert_eq!((seen.step_seconds, seen.seconds_left, seen.age_seconds), (None, None, 0));
        odd.started_at = None;
        assert_eq!(ProgressView::of(&odd, TEST_TIME).unwrap().measures(), "50 %  1/2");
        odd.progress_updated_at = Some(Timestamp::from_micros(i64::MIN));
        odd.started_at = Some(Timestamp::from_micros(i64::MAX));
        assert!(ProgressView::of(&odd, TEST_TIME).is_some());
        odd.progress = None;
        assert_eq!(ProgressView::of(&odd, TEST_TIME), None);
    }
}
