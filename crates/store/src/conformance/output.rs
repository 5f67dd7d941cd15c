//! What runs print: whose output a task keeps, and until when. Which bytes of it are kept is in `output_bytes.rs`.

use super::prelude::*;

/// The bytes that tests keep of a task.
pub(super) const MOST_BYTES: usize = 1_000;

/// A store with task 1, which run 1 has claimed.
pub(super) async fn running(fixture: Fixture) -> Fixture {
    fixture.create_running(1, with_budget(9)).await;
    fixture
}

/// The output of task 1 from an offset on.
pub(super) async fn read(fixture: &Fixture, offset: u64) -> Output {
    fixture.store.read_output(&queue("q"), task_id(1), offset, MOST_BYTES).await.unwrap()
}

async fn refused(fixture: &Fixture, id: u32, most_bytes: usize) -> Refusal {
    match fixture.store.read_output(&queue("q"), task_id(id), 0, most_bytes).await {
        Err(StoreError::Refused(refusal)) => refusal,
        other => panic!("{other:?}"),
    }
}

const NO_OUTPUT: fn(u32) -> Refusal = |id| Refusal::OutputNotFound { task_id: task_id(id) };

pub async fn what_a_run_prints_is_read_from_any_offset_and_changes_nothing_of_its_task(fixture: Fixture) {
    let fixture = running(fixture).await;
    let before = fixture.get(1).await;
    fixture.clock.advance_seconds(1);
    fixture.ok(print(1, 1, 0, "hello ")).await;
    fixture.ok(print(1, 1, 6, "")).await;
    fixture.ok(print(1, 1, 6, "world\n")).await;
    assert_eq!(fixture.get(1).await, before);
    let whole = Output { run_id: run_id(1), attempt: 1, start: 0, text: "hello world\n".into(), ended: false };
    assert_eq!(read(&fixture, 0).await, whole);
    assert_eq!(read(&fixture, 8).await, Output { start: 8, text: "rld\n".into(), ..whole.clone() });
    for offset in [12, 13, i64::MAX as u64, u64::MAX] {
        assert_eq!(read(&fixture, offset).await, Output { start: 12, text: String::new(), ..whole.clone() });
    }
}

pub async fn a_task_that_printed_nothing_has_no_output(fixture: Fixture) {
    let fixture = running(fixture).await;
    assert_eq!(refused(&fixture, 1, MOST_BYTES).await, NO_OUTPUT(1));
    fixture.ok(print(1, 1, 5, "")).await;
    assert_eq!(refused(&fixture, 1, MOST_BYTES).await, NO_OUTPUT(1), "an empty text is none");
    let no_task = Refusal::TaskNotFound { queue: queue("q"), task_id: task_id(2) };
    assert_eq!(refused(&fixture, 2, MOST_BYTES).await, no_task);
}

pub async fn output_that_is_turned_off_is_judged_and_not_kept(fixture: Fixture) {
    let fixture = running(fixture).await;
    let unkept = |run: u32| AddOutput { most_bytes: 0, ..print(1, run, 0, "text") };
    fixture.ok(unkept(1)).await;
    assert_eq!(refused(&fixture, 1, MOST_BYTES).await, NO_OUTPUT(1));
    assert_eq!(fixture.refused(unkept(2)).await, Refusal::StaleRun { run_id: run_id(2) });
    fixture.ok(print(1, 1, 0, "kept")).await;
    fixture.ok(AddOutput { offset: 4, ..unkept(1) }).await;
    assert_eq!(refused(&fixture, 1, 0).await, NO_OUTPUT(1), "what was kept before is not shown");
    assert_eq!(read(&fixture, 0).await.text, "kept", "and is there when it is turned on again");
}

pub async fn only_a_run_that_is_known_prints(fixture: Fixture) {
    let no_task = Refusal::TaskNotFound { queue: queue("q"), task_id: task_id(1) };
    assert_eq!(fixture.refused(print(1, 1, 0, "x")).await, no_task);
    fixture.create(1, with_budget(9)).await;
    let stale = |run: u32| Refusal::StaleRun { run_id: run_id(run) };
    assert_eq!(fixture.refused(print(1, 1, 0, "x")).await, stale(1), "nobody has claimed it");
    for run in [1, 2, 3] {
        fixture.claim(run).await;
        fixture.ok(print(1, run, 0, &format!("of run {run}"))).await;
        fixture.ok(fail("q", 1, run)).await;
    }
    assert_eq!(fixture.refused(print(1, 1, 0, "x")).await, stale(1), "two runs ago");
    assert_eq!(fixture.refused(print(1, 2, 0, "x")).await, stale(2));
    assert_eq!(fixture.refused(print(1, 9, 0, "x")).await, stale(9));
    assert_eq!(read(&fixture, 0).await.text, "of run 3");
}

pub async fn a_finished_run_prints_until_the_next_one_does(fixture: Fixture) {
    let fixture = running(fixture).await;
    fixture.ok(print(1, 1, 0, "one ")).await;
    fixture.ok(fail("q", 1, 1)).await;
    let ended = read(&fixture, 0).await;
    assert_eq!((ended.attempt, &*ended.text, ended.ended), (1, "one ", true));
    fixture.ok(print(1, 1, 4, "late ")).await;
    fixture.claim(2).await;
    fixture.ok(print(1, 1, 9, "later")).await;
    let late = read(&fixture, 0).await;
    assert_eq!((late.run_id, late.attempt, &*late.text, late.ended), (run_id(1), 1, "one late later", true));
    fixture.ok(print(1, 2, 0, "two")).await;
    fixture.ok(print(1, 1, 14, " too late")).await;
    let now = read(&fixture, 0).await;
    assert_eq!((now.run_id, now.attempt, &*now.text, now.ended), (run_id(2), 2, "two", false));
    fixture.ok(complete("q", 1, 2, object("{}"))).await;
    assert!(read(&fixture, 0).await.ended);
    assert_eq!(fixture.refused(print(1, 1, 0, "x")).await, Refusal::StaleRun { run_id: run_id(1) });
}

pub async fn a_run_that_prints_nothing_leaves_the_output_of_the_one_before(fixture: Fixture) {
    let fixture = running(fixture).await;
    fixture.ok(print(1, 1, 0, "one")).await;
    fixture.ok(fail("q", 1, 1)).await;
    fixture.claim(2).await;
    fixture.ok(print(1, 2, 0, "")).await;
    fixture.ok(complete("q", 1, 2, object("{}"))).await;
    let left = read(&fixture, 0).await;
    assert_eq!((left.run_id, &*left.text, left.ended), (run_id(1), "one", true));
    fixture.ok(print(1, 2, 500, "two")).await;
    let replaced = read(&fixture, 0).await;
    assert_eq!((replaced.run_id, replaced.start, &*replaced.text), (run_id(2), 500, "two"));
}

pub async fn output_is_taken_when_the_lease_is_over(fixture: Fixture) {
    let fixture = running(fixture).await;
    fixture.scan().await;
    fixture.pass(295).await;
    fixture.clock.advance_seconds(5);
    fixture.ok(print(1, 1, 0, "before the scan")).await;
    assert_eq!(fixture.status(1).await, Status::Running, "output neither ends nor prolongs a run");
    assert_eq!(fixture.scan().await.expired_runs, 1);
    fixture.ok(print(1, 1, 15, ", and after it")).await;
    assert_eq!(read(&fixture, 0).await.text, "before the scan, and after it");
}

pub async fn output_goes_with_its_task(fixture: Fixture) {
    let fixture = running(fixture).await;
    let large = "0123456789".repeat(500);
    let printed = AddOutput { most_bytes: 1 << 20, ..print(1, 1, 0, &large) };
    fixture.ok(printed.clone()).await;
    fixture.ok(print(1, 1, 7_000, "behind a gap")).await;
    fixture.ok(complete("q", 1, 1, object("{}"))).await;
    fixture.ok(delete("q", 1)).await;
    let expected = Refusal::TaskNotFound { queue: queue("q"), task_id: task_id(1) };
    assert_eq!(fixture.refused(print(1, 1, 0, "x")).await, expected);
    fixture.create(1, Definition::default()).await;
    assert_eq!(refused(&fixture, 1, MOST_BYTES).await, NO_OUTPUT(1));
    fixture.claim(2).await;
    fixture.ok(print(1, 2, 1, "anew")).await;
    assert_eq!(read(&fixture, 0).await.start, 1, "nothing is left of the one before");
    fixture.ok(cancel("q", 1)).await;
    fixture.ok(act_on_all("q", BulkAction::Delete, "status == 'cancelled'")).await;
    fixture.create(1, Definition::default()).await;
    assert_eq!(refused(&fixture, 1, MOST_BYTES).await, NO_OUTPUT(1), "after a bulk action");
}

pub async fn output_goes_with_its_queue(fixture: Fixture) {
    let fixture = running(fixture).await;
    fixture.ok(print(1, 1, 0, "text")).await;
    fixture.ok(complete("q", 1, 1, object("{}"))).await;
    fixture.ok(delete_queue("q", true)).await;
    assert_eq!(refused(&fixture, 1, MOST_BYTES).await, Refusal::QueueNotFound { queue: queue("q") });
    fixture.ok(create_queue("q")).await;
    fixture.create(1, Definition::default()).await;
    assert_eq!(refused(&fixture, 1, MOST_BYTES).await, NO_OUTPUT(1));
    fixture.claim(2).await;
    fixture.ok(print(1, 2, 2, "anew")).await;
    assert_eq!((read(&fixture, 0).await.start, &*read(&fixture, 0).await.text), (2, "anew"));
}
