//! Commands of several items: each item is judged as if it had come alone, one after the other.

use super::agreement::Pair;
use super::held_heartbeats::held;
use super::prelude::*;
use super::waiting::{ended, got, resting, waiter};
use crate::waiting;

/// Random histories in which one store gets commands of several items and the model gets each item alone.
pub async fn commands_of_several_items_equal_their_items_one_by_one(fixture: Fixture) {
    fixture.ok(delete_queue("q", false)).await;
    let pair = Pair::new(fixture);
    for name in QUEUES {
        pair.write(create_queue(name)).await.unwrap();
    }
    let (mut generator, mut several) = (Generator::new(16), 0);
    while several < 150 {
        match generator.step() {
            Step::Write(mut command) => {
                if let AnyCommand::ClaimTasks(claim) = &mut command {
                    claim.most_bytes = usize::MAX;
                }
                let is_several = matches!(
                    command,
                    AnyCommand::CreateTasks(_) | AnyCommand::ClaimTasks(_) | AnyCommand::ReportRuns(_)
                );
                several += usize::from(is_several);
                let answer = if is_several {
                    pair.write_one_by_one(command.clone()).await
                } else {
                    pair.write(command.clone()).await
                };
                generator.learn(&command, &answer);
            }
            Step::Pass(micros) => pair.fixture.clock.advance_micros(micros),
            Step::Live(seconds) => {
                pair.fixture.clock.advance_seconds(seconds.min(14));
                pair.write(Scan).await.unwrap();
            }
            Step::Reopen => {}
        }
    }
    pair.compare_reads(generator.random(), 5).await;
}

fn new(id: usize, definition: Definition) -> (TaskId, Box<NewTask>) {
    (task_id(id), Box::new(definition.into()))
}

pub async fn a_refused_item_leaves_the_others_alone(fixture: Fixture) {
    fixture.create(1, Definition::default()).await;
    let oversized = Definition { args: args_beyond_the_limit(1), ..Definition::default() };
    let tasks = vec![
        new(1, Definition::default()),
        new(1, with_priority(1)),
        new(2, oversized),
        new(3, Definition::default()),
        new(3, Definition::default()),
        new(3, with_priority(1)),
    ];
    let conflict = |id| Err(Refusal::TaskIdConflict { queue: queue("q"), task_id: task_id(id) });
    let created = fixture.ok(CreateTasks { queue: queue("q"), tasks: tasks.into() }).await;
    let expected: Items<bool> =
        vec![Ok(false), conflict(1), Err(Refusal::TaskDataTooLarge), Ok(true), Ok(false), conflict(3)];
    assert_eq!(created, expected);
    assert_eq!(fixture.count_by_status().await, [2, 0, 0, 0, 0]);

    fixture.claim(1).await;
    let claimed = fixture.ok(claim_all([1, 2, 3])).await;
    let ids: Vec<_> = claimed.iter().map(|item| item.as_ref().unwrap().as_ref().map(|c| c.task.id)).collect();
    assert_eq!(ids, [Some(task_id(1)), Some(task_id(3)), None], "a repeated claim, a new one, nothing left");

    let reports = [
        heartbeat("q", 1, 1).into(),
        complete("q", 1, 1, object(r#"{"a":1}"#)).into(),
        complete("q", 1, 1, object(r#"{"a":2}"#)).into(),
        fail("q", 1, 1).into(),
        heartbeat("q", 9, 1).into(),
        unclaim("q", 3, 1).into(),
        RunItem { task_id: task_id(3), run_id: run_id(2), action: RunAction::End(RunReport::Unclaim { delay: None }) },
    ];
    let finalized = || Err(Refusal::RunFinalized { end: RunEnd::Complete });
    let lease = claimed[0].as_ref().unwrap().as_ref().unwrap().lease_expires_at;
    let expected = vec![
        Ok(Some(lease)),
        Ok(None),
        Ok(None),
        finalized(),
        Err(Refusal::TaskNotFound { queue: queue("q"), task_id: task_id(9) }),
        Err(Refusal::StaleRun { run_id: run_id(1) }),
        Ok(None),
    ];
    assert_eq!(fixture.ok(report_all(reports)).await, expected);
    assert_eq!(fixture.get(1).await.outcome.result, object(r#"{"a":1}"#));
    assert_eq!(fixture.count_by_status().await, [1, 0, 1, 0, 0]);
    assert_kept_counts_are_right(&*fixture.store, "q").await;
}

pub async fn a_thousand_items_are_one_command(fixture: Fixture) {
    assert!(fixture.ok(create_all(0..1_000)).await.iter().all(|created| *created == Ok(true)));
    assert!(fixture.ok(create_all(0..1_000)).await.iter().all(|created| *created == Ok(false)));
    let claimed = fixture.ok(claim_all(0..1_000)).await;
    for (n, item) in claimed.iter().enumerate() {
        let Ok(Some(claimed)) = item else { panic!("{n}: {item:?}") };
        assert_eq!((claimed.task.id, claimed.run_id), (task_id(n), run_id(n)), "in the pending order");
    }
    assert_eq!(fixture.ok(claim_all(0..1_000)).await, claimed, "repeated");
    let reports = (0..1_000).map(|n| match n % 4 {
        0 => heartbeat("q", n, n).into(),
        1 => complete("q", n, n, object("{}")).into(),
        2 => fail("q", n, n).into(),
        _ => unclaim("q", n, n).into(),
    });
    assert!(fixture.ok(report_all(reports)).await.iter().all(Result::is_ok));
    assert_eq!(fixture.count_by_status().await, [500, 250, 250, 0, 0]);
    assert_kept_counts_are_right(&*fixture.store, "q").await;
}

/// Which tasks were claimed, by their number.
fn claimed_ids(items: &[Result<Option<Box<Claimed>>, StoreError>]) -> Vec<Option<String>> {
    let id = |claimed: &Claimed| claimed.task.id.as_str()[2..].trim_start_matches('0').to_owned();
    items.iter().map(|item| item.as_ref().unwrap().as_deref().map(id)).collect()
}

fn ids(ids: &[&str]) -> Vec<Option<String>> {
    ids.iter().map(|id| Some((*id).to_owned()).filter(|id| !id.is_empty())).collect()
}

pub async fn what_does_not_fit_into_the_answer_is_not_claimed(fixture: Fixture) {
    for (id, bytes) in [(1, 100), (2, 60), (3, 50), (4, 10), (5, 200)] {
        fixture.create(id, Definition { args: object_of_bytes(bytes), ..Definition::default() }).await;
    }
    let within = |most_bytes, runs: &[usize]| ClaimTasks { most_bytes, ..claim_all(runs.iter().copied()) };
    let first = fixture.ok(within(50, &[1, 2])).await;
    assert_eq!(claimed_ids(&first), ids(&["1", ""]), "the first one always fits");
    let second = fixture.ok(within(100, &[3, 4, 5])).await;
    assert_eq!(claimed_ids(&second), ids(&["2", "", ""]), "a smaller one does not overtake the one that does not fit");
    assert_eq!(fixture.count_by_status().await, [3, 2, 0, 0, 0]);
    // A run that got nothing is new.
    let third = fixture.ok(within(60, &[5, 2])).await;
    assert_eq!(claimed_ids(&third), ids(&["3", "4"]));
    let repeated = fixture.ok(within(230, &[9, 1, 3, 5, 2])).await;
    assert_eq!(claimed_ids(&repeated), ids(&["", "1", "2", "3", "4"]), "repeated claims come first");
}

/// "Nothing" would mean that the run has no task, and its claimant would go on with another run id.
pub async fn a_repeated_claim_that_does_not_fit_is_not_answered_with_nothing(fixture: Fixture) {
    for (id, bytes) in [(1, 100), (2, 60), (3, 50), (4, 10), (5, 10)] {
        fixture.create(id, Definition { args: object_of_bytes(bytes), ..Definition::default() }).await;
    }
    fixture.ok(claim_all([1, 2, 3, 4])).await;
    fixture.ok(complete("q", 4, 4, object("{}"))).await;
    fixture.create(6, with_routes(&["a"])).await;
    fixture.ok(claim("q", "a", 6)).await;
    let within = |most_bytes, runs: &[usize]| ClaimTasks { most_bytes, ..claim_all(runs.iter().copied()) };
    let got = fixture.ok(within(150, &[7, 1, 2, 3, 4, 6])).await;
    assert_eq!(got[0], Ok(None), "a new run gets nothing that does not fit");
    assert_eq!(claimed_ids(&got[1..2]), ids(&["1"]));
    assert_eq!(got[2..4], [Err(StoreError::Busy), Err(StoreError::Busy)], "they have tasks");
    assert_eq!(got[4], Err(Refusal::StaleRun { run_id: run_id(4) }.into()), "whatever fits");
    assert_eq!(got[5], Err(Refusal::RunIdConflict { run_id: run_id(6) }.into()), "whatever fits");
    assert_eq!(fixture.count_by_status().await, [1, 4, 1, 0, 0], "nothing has changed");
    assert_eq!(claimed_ids(&fixture.ok(within(150, &[2, 3])).await), ids(&["2", "3"]), "asked for again");
}

pub async fn tasks_that_were_created_together_wake_one_waiting_claim_each(fixture: Fixture) {
    let waiters: Vec<_> = (0..20).map(|run| waiter(&fixture, "default", run)).collect();
    resting(&fixture, 20).await;
    fixture.ok(create_all(0..20)).await;
    let mut ids = Vec::new();
    for waiter in waiters {
        ids.push(got(waiter).await);
    }
    ids.sort_unstable();
    assert_eq!(ids, (0..20).map(|id| task_id(id).to_string()).collect::<Vec<_>>());
    assert!(fixture.store.waiters().is_empty());
}

pub async fn a_claim_of_several_waits_until_one_of_them_gets_a_task(fixture: Fixture) {
    let waiting = |runs: Vec<usize>| {
        let store = Arc::clone(&fixture.store);
        tokio::spawn(async move {
            let waiter = store.waiters().register(&queue("q"), &route("default"), usize::MAX).unwrap();
            let claims = || store.write(claim_all(runs.clone()));
            waiting::claim_tasks(waiter, claims, std::future::pending()).await
        })
    };
    let first = waiting(vec![1, 2, 3]);
    resting(&fixture, 1).await;
    fixture.ok(create_all([1, 2])).await;
    let got = ended(first).await.unwrap();
    assert_eq!(claimed_ids(&got.unwrap()), ids(&["1", "2", ""]));
    // Two tasks wake two: whoever comes first may take both, and the other one waits on.
    let both = [waiting(vec![4, 5]), waiting(vec![4, 5])];
    resting(&fixture, 2).await;
    fixture.ok(create_all([3, 4])).await;
    for one in both {
        let got = ended(one).await.unwrap();
        assert_eq!(claimed_ids(&got.unwrap()), ids(&["3", "4"]), "the same runs get the same tasks");
    }
    // A used run id is not waited for.
    fixture.ok(complete("q", 1, 1, object("{}"))).await;
    let refused = ended(waiting(vec![6, 1])).await;
    assert_eq!(refused, Ok(Some(vec![Ok(None), Err(Refusal::StaleRun { run_id: run_id(1) }.into())])));
    let last = waiting(vec![6, 7]);
    resting(&fixture, 1).await;
    fixture.store.waiters().close();
    assert_eq!(ended(last).await, Ok(None), "a stop ends the wait");
    assert!(fixture.store.waiters().is_empty());
}

pub async fn runs_that_were_ended_together_end_their_held_heartbeats(fixture: Fixture) {
    fixture.ok(create_all(0..4)).await;
    fixture.ok(claim_all(0..4)).await;
    let all: Vec<_> = (0..4).map(|n| held(&fixture, n, &Arc::default())).collect();
    let reports = [complete("q", 0, 0, object("{}")), fail("q", 1, 1), unclaim("q", 2, 2), unclaim("q", 3, 3)];
    fixture.ok(report_all(reports.map(RunItem::from))).await;
    for (held, end) in all.into_iter().zip([RunEnd::Complete, RunEnd::Fail, RunEnd::Unclaim, RunEnd::Unclaim]) {
        assert_eq!(ended(held).await, Err(StoreError::Refused(Refusal::RunFinalized { end })));
    }
}
