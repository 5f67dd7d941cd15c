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
    assert_eq!(seen.measures(), "20 %  200/1000  2 steps/s  ETA 6m", "400 seconds at this rate, of which 10 are over");
    assert_eq!(seen.said(), "loss=0.31 note=warm up");
    assert_eq!(seen.short(), "20 % (ETA 6m)");
    assert_eq!(seen.bar(10).as_deref(), Some("[==>       ]"));
    assert_eq!((seen.age_seconds, seen.is_old), (10, false));
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
