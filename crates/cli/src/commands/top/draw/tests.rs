//! Whole screens as text.

use std::time::{Duration, Instant};

use ratatui::style::{Color, Modifier};
use taskqueue_client::{
    Failure, Health, JsonObject, LastError, Observation, QueueName, Report, Route, RunId, Status, Task, TaskId,
    Telemetry, Version, WorkerId, WorkerStatus,
};

use super::*;
use crate::commands::queue::StatusCounts;
use crate::commands::top::fetch::{Detail, Pane, QueueCounts, Rows, Snapshot, TaskOutput};
use crate::live::tests::{TEST_TIME, at_test_time, screen, task};
use crate::live::{ConnectionState, FetchError, Key, Theme, View};

fn name(text: &str) -> QueueName {
    QueueName::parse(text).unwrap()
}

/// Counts in the order of the contract's statuses.
fn counts(counts: [u64; 5]) -> StatusCounts {
    StatusCounts(counts)
}

fn snapshot(queues: &[(&str, [u64; 5])], rows: Option<Rows>) -> Snapshot {
    let queue = |(queue, numbers): &(&str, [u64; 5])| QueueCounts {
        name: name(queue),
        counts: counts(*numbers),
        has_workers: true,
        settings: None,
    };
    Snapshot {
        health: Health { is_ok: true, api_version: "2".to_owned() },
        version: Version::parse("0.1.0"),
        queues: queues.iter().map(queue).collect(),
        queues_left_out: 0,
        detail: rows.map(|rows| Detail { queue: name("default"), rows }),
        output: None,
    }
}

/// A view of two queues, ten seconds after its first refresh, in which ten tasks succeeded; with these rows in its pane.
fn view(now: Instant, rows: Rows) -> TopView {
    let mut view = TopView::new("http://127.0.0.1:8000".to_owned(), name("default"));
    view.pane = rows.pane();
    let before = now.checked_sub(Duration::from_secs(10)).unwrap();
    view.update(snapshot(&[("default", [1210, 2, 70, 3, 0])], None), before);
    let queues = [("default", [1200, 2, 80, 3, 0]), ("gpu", [0, 0, 0, 0, 7])];
    view.update(snapshot(&queues, Some(rows)), now);
    view
}

fn routes() -> Rows {
    Rows::Routes(vec![("default".to_owned(), counts([1200, 1, 80, 3, 0])), ("gpu".to_owned(), counts([9, 1, 0, 0, 0]))])
}

fn drawn(view: &TopView, now: Instant, width: u16, height: u16) -> Vec<String> {
    at_test_time(now, |context| screen(width, height, |frame| draw(view, frame, context)))
}

fn shown(rows: Rows, width: u16, height: u16) -> Vec<String> {
    let now = Instant::now();
    drawn(&view(now, rows), now, width, height)
}

#[test]
fn a_wide_screen_shows_everything() {
    let expected = [
        "taskqueue 0.1.0 at http://127.0.0.1:8000  ok                                                      08:00:00 UTC",
        "  QUEUE    PENDING  RUNNING  SUCCEEDED  FAILED  CANCELLED  CREATED/S  FINISHED/S  ETA",
        "> default     1200        2         80       3          0          0         1.0  20m",
        "  gpu            0        0          0       0          7          -           -    -",
        "default: 1.0 finished/s, done in 20m, last 5m                                                           ██",
        "[Routes] Running 2  Workers  Failed 3",
        "ROUTE    PENDING  RUNNING  SUCCEEDED  FAILED  CANCELLED",
        "default     1200        1         80       3          0",
        "gpu            9        1          0       0          0",
        "",
        "",
        "every 2s  q leave  ? keys  tab pane  space pause",
    ];
    assert_eq!(shown(routes(), 110, 12), expected);
}

#[test]
fn without_workers_nothing_is_expected_to_end() {
    let now = Instant::now();
    let mut view = view(now, routes());
    view.snapshot.as_mut().unwrap().queues[0].has_workers = false;
    let lines = drawn(&view, now, 110, 12);
    assert!(lines[2].ends_with("1.0    -"), "{lines:#?}");
    assert!(lines[4].starts_with("default: 1.0 finished/s, no workers"), "{lines:#?}");
}

#[test]
fn a_usual_screen_leaves_out_the_least_important_columns() {
    let expected = [
        "taskqueue 0.1.0 at http://127.0.0.1:8000  ok                        08:00:00 UTC",
        "  QUEUE    PENDING  RUNNING  SUCCEEDED  FAILED  CANCELLED  FINISHED/S  ETA",
        "> default     1200        2         80       3          0         1.0  20m",
    ];
    assert_eq!(shown(routes(), 80, 12)[..3], expected);
}

#[test]
fn a_tiny_screen_still_shows_queues_and_rows() {
    let expected = [
        "http://127.0.0.1:8000  ok   08:00:00 UTC",
        "  QUEUE    PENDING  RUNNING  FAILED  ETA",
        "> default     1200        2       3  20m",
        "  gpu            0        0       0    -",
        "[Routes] Running 2  Workers  Failed 3",
        "ROUTE    PENDING  RUNNING  FAILED",
        "default     1200        1       3",
        "gpu            9        1       0",
        "",
        "every 2s  q leave  ? keys  tab pane  spa",
    ];
    assert_eq!(shown(routes(), 40, 10), expected);
}

#[test]
fn no_screen_is_too_small() {
    for (width, height) in [(1, 1), (2, 3), (10, 5), (300, 2), (1, 80)] {
        shown(routes(), width, height);
    }
}

#[test]
fn running_tasks_show_how_long_they_run() {
    let running = |number, seconds: i64| Task {
        status: Status::Running,
        name: Some("warm\u{1b}[2Jup".into()),
        attempt: 2,
        last_route: Route::parse("gpu"),
        started_at: Some(TEST_TIME.plus_seconds(-seconds)),
        ..task(number)
    };
    let rows = Rows::Running(vec![running(1, 7300), running(2, -1)]);
    let expected = [
        " Routes [Running 2] Workers  Failed 3",
        "ID              NAME             ROUTE  ATTEMPT  RUNS FOR",
        "t_000000000001  warm\\u{1b}[2Jup  gpu        2/3        2h",
        "t_000000000002  warm\\u{1b}[2Jup  gpu        2/3        0s",
    ];
    assert_eq!(shown(rows, 80, 12)[5..9], expected);
}

fn worker(number: u64, status: WorkerStatus, task_id: Option<&str>) -> Observation {
    let (route, task_id) = (Route::parse("gpu").unwrap(), task_id.and_then(TaskId::parse));
    Observation {
        id: WorkerId::parse(&format!("w_{number:012}")).unwrap(),
        queue: name("default"),
        report: Report { route, status, task_id, metadata: JsonObject::empty() },
        telemetry: None,
        last_seen_at: TEST_TIME.plus_seconds(-50),
        expires_at: TEST_TIME.plus_seconds(250),
    }
}

#[test]
fn busy_workers_come_first() {
    let busy = worker(2, WorkerStatus::Busy, Some("t_000000000001"));
    let rows = Rows::Workers(vec![worker(1, WorkerStatus::Idle, None), busy]);
    let expected = [
        " Routes  Running 2 [Workers 1 busy 1 idle] Failed 3",
        "ID              STATUS  ROUTE  TASK            LAST SEEN  EXPIRES  WHERE",
        "w_000000000002  busy    gpu    t_000000000001  50s ago    in 4m    -",
        "w_000000000001  idle    gpu    -               50s ago    in 4m    -",
    ];
    assert_eq!(shown(rows, 80, 12)[5..9], expected);
}

#[test]
fn failed_tasks_show_why() {
    let failure = Failure { kind: "ValueError".into(), message: "no\nnumber".into(), traceback: None };
    let run_id = RunId::parse("r_000000000001").unwrap();
    let failed = Task {
        status: Status::Failed,
        attempt: 3,
        finished_at: Some(TEST_TIME.plus_seconds(-300)),
        last_error: Some(LastError { failure, occurred_at: TEST_TIME, attempt: 3, run_id: Some(run_id) }),
        ..task(3)
    };
    let expected = [
        " Routes  Running 2  Workers [Failed 3]",
        "ID              NAME  ATTEMPT  FINISHED  ERROR",
        "t_000000000003  -         3/3  5m ago    ValueError: no\\nnumber",
    ];
    assert_eq!(shown(Rows::Failed(vec![failed]), 80, 12)[5..8], expected);
}

#[test]
fn empty_panes_say_so() {
    let said = |rows| shown(rows, 80, 12)[6].clone();
    assert_eq!(said(Rows::Routes(vec![])), "no tasks");
    assert_eq!(said(Rows::Running(vec![])), "nothing is running");
    assert_eq!(said(Rows::Workers(vec![])), "no worker has reported within the last five minutes");
    assert_eq!(said(Rows::Failed(vec![])), "nothing has failed");
}

#[test]
fn an_unreachable_server_is_shown_in_red_and_the_data_stays() {
    let now = Instant::now();
    let view = view(now, routes());
    let later = now + Duration::from_secs(14);
    let error = FetchError { headline: "NO ANSWER", message: "refused".to_owned() };
    let next_at = Some(later + Duration::from_secs(4));
    let connection = ConnectionState { answered_at: Some(now), error: Some(error), next_at };
    let lines = at_test_time(later, |context| {
        let context = DrawContext { connection: &connection, theme: Theme::COLOURED, ..*context };
        screen(80, 12, |frame| {
            draw(&view, frame, &context);
            let cell = frame.buffer_mut().cell((0, 1)).unwrap().clone();
            assert_eq!((cell.fg, cell.modifier), (Color::Red, Modifier::BOLD));
        })
    });
    assert_eq!(lines[0], "taskqueue 0.1.0 at http://127.0.0.1:8000  NO ANSWER                 08:00:00 UTC");
    assert_eq!(lines[1], "NO ANSWER, data 14s old, next try in 4s: refused");
    assert!(lines[3].starts_with("> default     1200"), "{lines:#?}");
}

#[test]
fn stale_data_is_shown_before_a_refresh_has_failed() {
    let now = Instant::now();
    let view = view(now, routes());
    let connection = ConnectionState { answered_at: Some(now), ..ConnectionState::default() };
    let lines = at_test_time(now + Duration::from_secs(9), |context| {
        screen(80, 12, |frame| draw(&view, frame, &DrawContext { connection: &connection, ..*context }))
    });
    assert!(lines[0].starts_with("taskqueue 0.1.0 at http://127.0.0.1:8000  data 9s old"), "{lines:#?}");
}

#[test]
fn before_the_first_answer_and_without_queues_a_text_says_so() {
    let mut view = TopView::new("unix:/run/\u{7}".to_owned(), name("default"));
    let shown = |view: &TopView| drawn(view, Instant::now(), 80, 12);
    assert!(shown(&view)[0].starts_with(r"taskqueue at unix:/run/\u{7}  connecting"));
    view.update(Snapshot { queues_left_out: 3, ..snapshot(&[], None) }, Instant::now());
    let lines = shown(&view);
    assert_eq!(lines[1], "no queues; create one with: taskqueue queue create NAME");
    assert!(lines[11].contains("3 more queues"), "{lines:#?}");
}

#[test]
fn the_selected_queue_stays_in_view_however_many_there_are() {
    let names: Vec<String> = (0..30).map(|number| format!("queue-{number:02}")).collect();
    let queues: Vec<(&str, [u64; 5])> = names.iter().map(|name| (name.as_str(), [0; 5])).collect();
    let mut view = TopView::new("http://x".to_owned(), name("queue-00"));
    view.update(snapshot(&queues, None), Instant::now());
    (0..17).for_each(|_| view.handle_key(Key::Down));
    let lines = drawn(&view, Instant::now(), 80, 12);
    let marked: Vec<&str> = lines.iter().filter(|line| line.starts_with('>')).map(|line| &line[..10]).collect();
    assert_eq!(marked, ["> queue-17"]);
}

#[test]
fn the_help_lists_every_key() {
    let now = Instant::now();
    let view = view(now, Rows::Routes(vec![]));
    let lines = at_test_time(now, |context| {
        let controls = live::Controls { shows_help: true, ..*context.controls };
        screen(40, 10, |frame| live::draw(&view, frame, &DrawContext { controls: &controls, ..*context }))
    });
    let expected = [
        "Keys (any key closes this)",
        "up down   choose a queue (also k, j)",
        "tab       next pane (also left, right)",
        "enter l   choose a task, show its output",
        "space     pause and go on",
        "+ -       refresh more often, less often",
        "r         refresh now",
        "q Esc ^C  leave",
        "",
        "",
    ];
    assert_eq!(lines, expected);
    assert_eq!(Pane::ALL.len(), 4);
}

/// A running task that is at step 20 of 100 after 100 seconds.
fn with_progress(number: u64) -> Task {
    Task {
        status: Status::Running,
        attempt: 1,
        started_at: Some(TEST_TIME.plus_seconds(-100)),
        progress: Some(JsonObject::from_canonical(r#"{"loss":0.5,"step":20,"total":100}"#)),
        progress_updated_at: Some(TEST_TIME),
        progress_attempt: Some(1),
        ..task(number)
    }
}

#[test]
fn running_tasks_show_their_progress_where_they_report_one() {
    let rows = Rows::Running(vec![with_progress(1), Task { progress: None, ..with_progress(2) }]);
    let expected = [
        "ID              NAME  ROUTE  ATTEMPT  RUNS FOR  PROGRESS",
        "t_000000000001  -     -          1/3      100s  20 % (ETA 6m)     [===>            ]",
        "t_000000000002  -     -          1/3      100s  -",
    ];
    assert_eq!(shown(rows.clone(), 100, 12)[6..9], expected);
    let narrow = shown(rows, 40, 12);
    assert!(narrow[7].contains("20 %"), "{narrow:?}");
}

#[test]
fn workers_show_what_they_measure_where_one_of_them_does() {
    let telemetry = JsonObject::from_canonical(r#"{"cpu_percent":50,"memory_bytes":1073741824}"#);
    let telemetry = Some(Telemetry { value: telemetry, updated_at: TEST_TIME.plus_seconds(-7) });
    let worker = Observation { telemetry, ..worker(1, WorkerStatus::Idle, None) };
    let expected = [
        "ID              STATUS  ROUTE  TASK  LAST SEEN  WHERE   CPU  MEMORY  MEASURED",
        "w_000000000001  idle    gpu    -     50s ago    -      50 %   1 GiB  7s ago",
    ];
    assert_eq!(shown(Rows::Workers(vec![worker]), 100, 12)[6..8], expected);
}

#[test]
fn the_output_of_a_task_covers_the_screen_and_shows_its_latest_lines() {
    let now = Instant::now();
    let mut view = view(now, Rows::Running(vec![with_progress(1)]));
    view.handle_key(Key::Open);
    let shown = |view: &TopView| drawn(view, now, 60, 8);
    assert!(shown(&view).iter().any(|line| line.starts_with("t_000000000001")), "chosen, not open");
    view.handle_key(Key::Open);
    assert_eq!(shown(&view)[1..3], ["t_000000000001", "reading"]);
    let lines: Vec<String> = (1..=9).map(|line| format!("line\t{line}")).collect();
    let output = Some(TaskOutput { id: with_progress(1).id, task: Some(with_progress(1)), lines });
    view.update(Snapshot { output, ..snapshot(&[("default", [0; 5])], None) }, now);
    let expected = [
        "t_000000000001  running  attempt 1/3",
        "[====>               ]  20 %  20/100  5s per step  ETA 6m  l",
        "line    6",
        "line    7",
        "line    8",
        "line    9",
        "every 2s  Esc back  up down scroll  ? keys  q leave",
    ];
    assert_eq!(shown(&view)[1..], expected);
    view.handle_key(Key::Up);
    let scrolled = shown(&view);
    assert_eq!((scrolled[3].as_str(), scrolled[6].as_str()), ("line    5", "line    8"));
    assert!(scrolled[1].ends_with("1 more below"), "{scrolled:?}");
    let gone = Some(TaskOutput { id: with_progress(1).id, task: None, lines: Vec::new() });
    view.update(Snapshot { output: gone, ..snapshot(&[("default", [0; 5])], None) }, now);
    assert_eq!(shown(&view)[1..3], ["t_000000000001  does not exist any more", "nothing that it printed is kept"]);
    for (width, height) in [(1, 1), (2, 3), (300, 2)] {
        drawn(&view, now, width, height);
    }
    assert!(view.go_back() && view.open.is_none());
}

#[test]
fn a_paused_or_limited_queue_says_so_and_others_have_no_column_for_it() {
    let now = Instant::now();
    let mut view = view(now, routes());
    let plain = drawn(&view, now, 120, 20);
    assert!(!plain.iter().any(|line| line.contains("LIMITS")), "{plain:#?}");
    let mut limited = snapshot(&[("default", [1200, 2, 80, 3, 0]), ("gpu", [0, 0, 0, 0, 7])], Some(routes()));
    limited.queues[1].settings = Some("paused, max 8".to_owned());
    view.update(limited, now);
    let lines = drawn(&view, now, 120, 20);
    assert!(lines.iter().any(|line| line.contains("gpu") && line.contains("paused, max 8")), "{lines:#?}");
}

#[test]
fn rates_have_as_many_digits_as_are_meaningful() {
    let cases = [
        (0.0, "0"),
        (0.001, "<0.01"),
        (0.05, "0.05"),
        (0.333, "0.33"),
        (2.5, "2.5"),
        (99.94, "99.9"),
        (1234.5, "1234"),
    ];
    for (per_second, expected) in cases {
        assert_eq!(rate(per_second), expected);
    }
}
