//! Each rule with a task, output or observation that breaks it.

use super::*;
use crate::observation::{Report, Telemetry};
use crate::samples::{at, idle_worker, run, task_in};
use crate::task::{FinishedRun, LastRun, Progress};

fn raw(text: &str) -> JsonObject {
    JsonObject::from_canonical(text)
}

#[test]
fn a_task_in_every_status_is_sound() {
    for status in Status::ALL {
        let sound = task_in(status);
        assert_eq!(task(&sound, &sound.head()), [], "{status:?}");
    }
}

type Damage = fn(&mut Task);

fn finish(task: &mut Task, end: RunEnd) {
    task.lifecycle.finished_run = Some(FinishedRun { run_id: run("active"), end });
}

#[test]
fn each_rule_of_a_task_reports_what_breaks_it_and_nothing_else() {
    use Status::{Failed, Pending, Running, Succeeded};
    let cases: &[(Status, &str, Rule, Damage)] = &[
        (Running, "is running without a run", Rule::Runs, |task| task.lifecycle.run = None),
        (Pending, "has a run and is not running", Rule::Runs, |task| {
            *task = Task { lifecycle: task_in(Running).lifecycle, ..task.clone() };
            task.lifecycle.status = Pending;
        }),
        (Running, "is running and has no route of its claim", Rule::Runs, |task| task.lifecycle.last_route = None),
        (Running, "has the same run as active and as finished", Rule::Runs, |task| finish(task, RunEnd::Fail)),
        (Succeeded, "has succeeded, and its run was not completed", Rule::Runs, |task| finish(task, RunEnd::Fail)),
        (Status::Cancelled, "has a completed run and has not succeeded", Rule::Runs, |task| {
            finish(task, RunEnd::Complete)
        }),
        (Failed, "has failed, and its run did not", Rule::Runs, |task| finish(task, RunEnd::Unclaim)),
        (Failed, "has failed without an error", Rule::Runs, |task| task.outcome.last_error = None),
        (Status::Cancelled, "has finished and has no finished run", Rule::Runs, |task| {
            task.lifecycle.finished_run = None;
        }),
        (Status::Cancelled, "has an attempt budget below 1", Rule::Attempts, |task| task.definition.max_attempts = 0),
        (Status::Cancelled, "has a negative attempt", Rule::Attempts, |task| task.lifecycle.attempt = -1),
        (Pending, "is pending without an attempt left", Rule::Attempts, |task| task.lifecycle.attempt = 3),
        (Running, "is running beyond its attempt budget", Rule::Attempts, |task| task.lifecycle.attempt = 4),
        (Succeeded, "has run and has no attempt", Rule::Attempts, |task| task.lifecycle.attempt = 0),
        (Failed, "has an error of no attempt", Rule::Attempts, |task| {
            task.outcome.last_error.iter_mut().for_each(|error| error.attempt = 0);
        }),
        (Running, "has a last run of no attempt", Rule::Attempts, |task| {
            task.outcome.last_run = Some(LastRun { attempt: 0, worker: JsonObject::empty() });
        }),
        (Pending, "changed before it was created", Rule::Times, |task| task.lifecycle.updated_at = at(99)),
        (Running, "started before it was created", Rule::Times, |task| task.lifecycle.started_at = Some(at(99))),
        (Running, "started after its last change", Rule::Times, |task| task.lifecycle.started_at = Some(at(131))),
        (Succeeded, "finished after its last change", Rule::Times, |task| task.lifecycle.finished_at = Some(at(141))),
        (Succeeded, "finished and never started", Rule::Times, |task| task.lifecycle.started_at = None),
        (Succeeded, "finished before it started", Rule::Times, |task| task.lifecycle.finished_at = Some(at(129))),
        (Running, "is running and never started", Rule::Times, |task| task.lifecycle.started_at = None),
        (Succeeded, "has ended and not finished", Rule::Times, |task| task.lifecycle.finished_at = None),
        (Failed, "has an error of later than its last change", Rule::Times, |task| {
            task.outcome.last_error.iter_mut().for_each(|error| error.occurred_at = at(141));
        }),
        (Pending, "has args that are not canonical", Rule::CanonicalJson, |task| task.definition.args = raw("{ }")),
        (Pending, "has metadata that are not canonical", Rule::CanonicalJson, |task| {
            task.definition.metadata = raw(r#"{"b":1,"a":2}"#);
        }),
        (Succeeded, "has a result that is not canonical", Rule::CanonicalJson, |task| task.outcome.result = raw("[]")),
        (Running, "has a worker that is not canonical", Rule::CanonicalJson, |task| {
            task.outcome.last_run = Some(LastRun { attempt: 1, worker: raw("{") });
        }),
        (Running, "has progress that is not canonical", Rule::CanonicalJson, |task| {
            task.outcome.progress = Some(Progress { value: raw(r#"{"a":1e2}"#), updated_at: at(130), attempt: 1 });
        }),
        (Pending, "has routes that are no sorted set", Rule::CanonicalJson, |task| {
            task.definition.routes = Routes::from_json(r#"["b","a"]"#);
        }),
        (Pending, "has a name that is none", Rule::CanonicalJson, |task| task.definition.name = Some("\n".into())),
    ];
    for (status, what, rule, damage) in cases {
        let mut damaged = task_in(*status);
        damage(&mut damaged);
        assert_eq!(task(&damaged, &damaged.head()), [(*rule, *what)], "{status:?}");
    }
    // Such a task breaks a second rule in any case.
    let mut both = task_in(Running);
    both.lifecycle.finished_at = Some(at(130));
    let expected = [(Rule::Times, "is running and has finished"), (Rule::Runs, "has finished and has no finished run")];
    assert_eq!(task(&both, &both.head()), expected);
}

#[test]
fn sizes_that_are_noted_are_those_of_the_task() {
    let sound = task_in(Status::Running);
    let head = sound.head();
    let other = TaskHead { definition_bytes: head.definition_bytes + 1, ..head.clone() };
    assert_eq!(task(&sound, &other), [(Rule::Sizes, "is not of the size that is noted")]);
    let other = TaskHead { progress_bytes: 5, ..head };
    assert_eq!(task(&sound, &other), [(Rule::Sizes, "has progress of another size than noted")]);
    let mut large = task_in(Status::Pending);
    large.definition.args = raw(&format!("{{\"a\":\"{}\"}}", "x".repeat(1_048_576)));
    assert_eq!(task(&large, &large.head()), [(Rule::Sizes, "is larger than a task may be")]);
}

#[test]
fn kept_output_is_where_its_pieces_are() {
    let part = |start, end| Part { start, end };
    let kept = |parts: &[Part]| KeptOutput { run_id: run("active"), attempt: 1, parts: parts.to_vec() };
    let cases: &[(KeptOutput, &[Part], &[&str])] = &[
        (kept(&[part(0, 10)]), &[part(0, 10)], &[]),
        (kept(&[part(0, 10)]), &[part(0, 4), part(4, 10)], &[]),
        (kept(&[part(3, 10), part(20, 21)]), &[part(0, 10), part(15, 25)], &[]),
        (kept(&[part(0, 10)]), &[part(0, 4), part(5, 10)], &["lacks bytes of its output"]),
        (kept(&[part(0, 10)]), &[part(0, 9)], &["lacks bytes of its output"]),
        (kept(&[part(0, 10)]), &[], &["lacks bytes of its output"]),
        (kept(&[part(0, 10)]), &[part(0, 6), part(5, 10)], &["has pieces of output that overlap"]),
        (kept(&[part(0, 10)]), &[part(0, 10), part(10, 10)], &["has an empty piece of output"]),
        (kept(&[]), &[], &["keeps parts of output that are empty, overlap or touch"]),
        (kept(&[part(0, 4), part(4, 8)]), &[part(0, 8)], &["keeps parts of output that are empty, overlap or touch"]),
        (
            KeptOutput { attempt: 0, run_id: run("other"), ..kept(&[part(0, 1)]) },
            &[part(0, 1)],
            &["has output of a run that it never had", "has output of no attempt"],
        ),
        (
            kept(&[part(u64::MAX - 1, u64::MAX)]),
            &[part(u64::MAX - 1, u64::MAX)],
            &["keeps output behind the largest offset"],
        ),
    ];
    let ended = task_in(Status::Succeeded);
    for (kept, pieces, expected) in cases {
        let found: Vec<&str> = output(kept, &ended, &[], pieces).into_iter().map(|(_, what)| what).collect();
        assert_eq!(found, *expected, "{kept:?} in {pieces:?}");
    }
    let many: Vec<Part> = (0..257).map(|n| part(2 * n, 2 * n + 1)).collect();
    let found = output(&kept(&many), &task_in(Status::Pending), &[run("active")], &many);
    assert_eq!(found, [(Rule::Output, "keeps more parts of output than there may be")]);
}

#[test]
fn an_observation_ends_after_it_was_made_and_says_canonical_things() {
    let sound = idle_worker();
    assert_eq!(observation(&sound), []);
    let report = Report { metadata: raw("1"), ..sound.report.clone() };
    let telemetry = Some(Telemetry { value: raw("{ }"), updated_at: at(0) });
    let cases: [(Observation, &str); 3] = [
        (Observation { expires_at: at(-1), ..sound.clone() }, "ends before it was made"),
        (Observation { report, ..sound.clone() }, "has metadata that are not canonical"),
        (Observation { telemetry, ..sound }, "has telemetry that is not canonical"),
    ];
    for (broken, what) in cases {
        assert_eq!(observation(&broken), [(Rule::Observations, what)]);
    }
}
