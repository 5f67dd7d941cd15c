use super::*;
use crate::live::testing::{TEST_TIME, task};

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
    assert_eq!(seen.measures(), "20 %  200/1000  2/s  ETA 6m", "400 seconds at this rate, of which 10 are over");
    assert_eq!(seen.said(), "loss=0.31 note=warm up");
    assert_eq!(seen.short(), "20 % (ETA 6m)");
    assert_eq!(seen.bar(10).as_deref(), Some("[==>       ]"));
    assert_eq!((seen.age_seconds, seen.is_old), (10, false));
}

#[test]
fn a_percentage_alone_gives_a_bar_and_a_time_but_no_rate() {
    let seen = view(r#"{"percent":50.0}"#);
    assert_eq!((seen.measures().as_str(), seen.said().as_str()), ("50 %  ETA 90s", ""));
    assert_eq!(view(r#"{"percent":50,"step":7}"#).said(), "step=7");
    assert_eq!(view(r#"{"percent":3,"step":9,"total":10}"#).percent().as_deref(), Some("90 %"), "steps count more");
}

#[test]
fn what_cannot_be_makes_no_bar_and_is_shown_as_it_is() {
    for nonsense in [
        r#"{"step":1,"total":0}"#,
        r#"{"step":-1,"total":10}"#,
        r#"{"step":1,"total":-10}"#,
        r#"{"step":11,"total":10}"#,
        r#"{"step":"1","total":"10"}"#,
        r#"{"step":"NaN","total":10}"#,
        r#"{"step":null,"total":10}"#,
        r#"{"step":[1],"total":{"a":1}}"#,
        r#"{"step":1}"#,
        r#"{"total":1}"#,
        r#"{"percent":-0.1}"#,
        r#"{"percent":100.1}"#,
        r#"{"percent":"50"}"#,
        r#"{"percent":true}"#,
        r#"{"percent":1e300}"#,
        "{}",
    ] {
        let seen = view(nonsense);
        assert_eq!((seen.done, seen.bar(10), seen.eta(), &seen.rate), (None, None, None, &None), "{nonsense}");
        assert_eq!(seen.measures(), "", "{nonsense}");
        let members = nonsense.matches("\":").count() - usize::from(nonsense.contains("{\"a\""));
        assert_eq!(seen.others.len(), members, "{nonsense}");
    }
}

#[test]
fn extreme_numbers_neither_panic_nor_promise_an_end() {
    for extreme in [
        r#"{"step":1,"total":9223372036854775807}"#,
        r#"{"step":9223372036854775807,"total":9223372036854775807}"#,
        r#"{"step":5e-324,"total":1.7976931348623157e308}"#,
        r#"{"step":1.7976931348623157e308,"total":1.7976931348623157e308}"#,
        r#"{"percent":5e-324}"#,
        r#"{"step":0,"total":10}"#,
        r#"{"percent":100}"#,
    ] {
        let seen = view(extreme);
        assert!(seen.done.is_some_and(|done| (0.0..=1.0).contains(&done)), "{extreme}");
        assert_eq!(seen.eta(), None, "{extreme}");
        assert!(seen.bar(10).is_some_and(|bar| bar.len() == 12), "{extreme}");
    }
    assert_eq!(view(r#"{"step":999999,"total":1000000}"#).percent().as_deref(), Some("99 %"), "not yet the end");
}

#[test]
fn times_that_do_not_fit_together_give_no_rate() {
    let mut odd = running(r#"{"step":1,"total":2}"#);
    odd.started_at = Some(TEST_TIME);
    let seen = ProgressView::of(&odd, TEST_TIME.plus_seconds(-3600)).unwrap();
    assert_eq!((seen.rate, seen.seconds_left, seen.age_seconds), (None, None, 0));
    odd.started_at = None;
    assert_eq!(ProgressView::of(&odd, TEST_TIME).unwrap().measures(), "50 %  1/2");
    odd.progress_updated_at = Some(Timestamp::from_micros(i64::MIN));
    odd.started_at = Some(Timestamp::from_micros(i64::MAX));
    assert!(ProgressView::of(&odd, TEST_TIME).is_some());
    odd.progress = None;
    assert_eq!(ProgressView::of(&odd, TEST_TIME), None);
}

#[test]
fn a_running_task_that_said_nothing_for_long_is_old_and_promises_nothing() {
    let mut quiet = running(r#"{"step":50,"total":100}"#);
    let at = |seconds| TEST_TIME.plus_seconds(seconds);
    assert!(!ProgressView::of(&quiet, at(109)).unwrap().is_old);
    let seen = ProgressView::of(&quiet, at(111)).unwrap();
    assert_eq!((seen.is_old, seen.seconds_left), (true, None), "the end should have come already");
    quiet.progress = Some(JsonObject::from_canonical(r#"{"step":1,"total":100}"#));
    assert!(!ProgressView::of(&quiet, at(289)).unwrap().is_old, "a step took 100 seconds");
    assert!(ProgressView::of(&quiet, at(291)).unwrap().is_old);
    quiet.status = Status::Failed;
    let ended = ProgressView::of(&quiet, at(9999)).unwrap();
    assert_eq!((ended.is_old, ended.seconds_left), (false, None));
}

#[test]
fn slow_steps_have_their_time_and_fast_ones_their_rate() {
    let cases = [
        (r#"{"step":50000,"total":100000}"#, "500/s"),
        (r#"{"step":350,"total":1000}"#, "3.5/s"),
        (r#"{"step":100,"total":1000}"#, "1/s"),
        (r#"{"step":40,"total":1000}"#, "2.5s/step"),
        (r#"{"step":4,"total":10}"#, "25s/step"),
        (r#"{"step":0.5,"total":10.5}"#, "3m/step"),
    ];
    for (progress, expected) in cases {
        assert_eq!(view(progress).rate.as_deref(), Some(expected), "{progress}");
    }
    assert_eq!(view(r#"{"step":120.0,"total":240.5}"#).steps.as_deref(), Some("120/240.5"));
}
