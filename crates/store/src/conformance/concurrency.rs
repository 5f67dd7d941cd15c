//! Many callers at once: writes behave as if they happened one after the other, however a store batches them
//! (I1, I2, I15, I16, I19).

use std::collections::BTreeSet;

use tokio::task::JoinSet;

use super::prelude::*;

/// Writes everything at once. The answers come in the order of the commands.
async fn together<W: Write>(fixture: &Fixture, commands: Vec<W>) -> Vec<Result<W::Answer, StoreError>> {
    let mut writes = JoinSet::new();
    for (index, command) in commands.into_iter().enumerate() {
        let store = Arc::clone(&fixture.store);
        writes.spawn(async move { (index, command.write_to(&*store).await) });
    }
    let mut answers = writes.join_all().await;
    answers.sort_by_key(|(index, _)| *index);
    answers.into_iter().map(|(_, answer)| answer).collect()
}

fn claimed_id(answer: &Result<Option<Box<Claimed>>, StoreError>) -> Option<String> {
    answer.as_ref().unwrap().as_ref().map(|claimed| claimed.task.id.to_string())
}

pub async fn concurrent_claims_get_distinct_tasks(fixture: Fixture) {
    for id in 0..50 {
        fixture.create(id, Definition::default()).await;
    }
    let claims = (0..64).map(|run| claim("q", "default", run)).collect();
    let ids: Vec<_> = together(&fixture, claims).await.iter().filter_map(claimed_id).collect();
    assert_eq!(ids.len(), 50, "nobody went away empty-handed while something was pending");
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), 50);
    assert_eq!(fixture.count_by_status().await, [0, 50, 0, 0, 0]);
    let runs: BTreeSet<_> =
        fixture.tasks("q").await.into_iter().map(|task| task.lifecycle.run.unwrap().run_id).collect();
    assert_eq!(runs.len(), 50);
}

pub async fn concurrent_claims_with_one_run_id_take_one_task(fixture: Fixture) {
    fixture.ok(create_queue("other")).await;
    for id in 0..10 {
        fixture.create(id, with_routes(&["a", "b"])).await;
        fixture.ok(create("other", id, with_routes(&["a"]))).await;
    }
    let claims = (0..48).map(|n| claim(if n % 3 == 0 { "other" } else { "q" }, ["a", "b"][n % 2], 1)).collect();
    let mut taken = BTreeSet::new();
    for answer in together(&fixture, claims).await {
        match answer {
            Err(StoreError::Refused(Refusal::RunIdConflict { .. })) => {}
            // A claim for `other` and `b` finds nothing as long as nobody has taken the run id.
            Ok(None) => {}
            Ok(Some(claimed)) => {
                taken.insert((claimed.task.queue.clone(), claimed.task.id));
                assert_eq!(claimed.task.lifecycle.attempt, 1);
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(taken.len(), 1);
    let running = async |name| fixture.store.count_tasks(&queue(name), of_status(Status::Running)).await.unwrap();
    assert_eq!(running("q").await + running("other").await, 1);
}

pub async fn concurrent_creations_of_one_id_create_one_task(fixture: Fixture) {
    let creations = (0..64).map(|n| create("q", 1, with_priority(n % 2))).collect();
    let (mut created, mut replayed, mut refused) = (0, 0, 0);
    for answer in together(&fixture, creations).await {
        match answer {
            Ok(CreatedTask { created: true, .. }) => created += 1,
            Ok(CreatedTask { created: false, .. }) => replayed += 1,
            Err(StoreError::Refused(Refusal::TaskIdConflict { .. })) => refused += 1,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((created, replayed, refused), (1, 31, 32));
    assert_eq!(fixture.count(all()).await, 1);
    let queues = together(&fixture, (0..16).map(|_| create_queue("new")).collect()).await;
    assert_eq!(queues.iter().filter(|answer| **answer == Ok(true)).count(), 1);
}

pub async fn concurrent_reports_end_a_run_once(fixture: Fixture) {
    fixture.create(1, Definition::default()).await;
    fixture.claim(1).await;
    let mut commands = Vec::new();
    for n in 0..8 {
        commands.push(complete("q", 1, 1, object(&format!(r#"{{"n":{n}}}"#))));
        commands.push(fail_with("q", 1, 1, failure(&n.to_string())));
        commands.push(unclaim("q", 1, 1));
    }
    let accepted: Vec<usize> = together(&fixture, commands)
        .await
        .iter()
        .enumerate()
        .filter_map(|(index, answer)| match answer {
            Ok(()) => Some(index % 3),
            Err(StoreError::Refused(Refusal::RunFinalized { .. })) => None,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(accepted.len(), 8, "the end and its repetitions");
    assert_eq!(accepted.iter().collect::<BTreeSet<_>>().len(), 1, "one kind of end");
    let task = fixture.get(1).await;
    let expected = [(Status::Succeeded, 1), (Status::Pending, 1), (Status::Pending, 0)][accepted[0]];
    assert_eq!((task.lifecycle.status, task.lifecycle.attempt), expected);
}

/// A batch may hold the whole life of a run: its task is claimed, cancelled and deleted before anything is written.
pub async fn a_run_that_began_while_its_task_was_deleted_stays_used_up(fixture: Fixture) {
    for run in 0..40 {
        fixture.create(1, Definition::default()).await;
        let commands = commands![claim("q", "default", run), cancel("q", 1), delete("q", 1)];
        let answers = together(&fixture, commands).await;
        let Ok(AnyAnswer::Claimed(claimed)) = &answers[0] else { panic!("{:?}", answers[0]) };
        let claimed = claimed.is_some();
        fixture.write(cancel("q", 1)).await.ok();
        fixture.ok(delete("q", 1)).await;
        match fixture.write(claim("q", "default", run)).await {
            Err(StoreError::Refused(Refusal::StaleRun { .. })) => assert!(claimed, "run {run} was never used"),
            Ok(None) => assert!(!claimed, "run {run} owned a task"),
            other => panic!("{other:?}"),
        }
    }
}

/// Rounds of commands that commute within a round: each is about another task, worker or queue.
fn rounds() -> Vec<Vec<AnyCommand>> {
    let ids = || 0..30_i64;
    vec![
        ids().map(|id| create("q", id, Definition { priority: -id, ..with_budget(id % 3 + 1) }).into()).collect(),
        ids().filter(|id| id % 7 == 0).map(|id| update("q", id, to_routes(&["x", "y"])).into()).collect(),
        // Each claim has a route of its own, so which task it gets does not depend on the order.
        ids().map(|id| update("q", id, to_routes(&[&format!("only{id}")])).into()).collect(),
        ids().filter(|id| id % 5 != 0).map(|id| claim("q", &format!("only{id}"), id).into()).collect(),
        ids()
            .map(|id| match id % 5 {
                0 => cancel("q", id).into(),
                1 => complete("q", id, id, object(&format!(r#"{{"n":{id}}}"#))).into(),
                2 => fail("q", id, id).into(),
                3 => unclaim("q", id, id).into(),
                _ => heartbeat("q", id, id).into(),
            })
            .collect(),
        ids()
            .map(|id| match id % 4 {
                0 => requeue("q", id).into(),
                1 => delete("q", id).into(),
                2 => create("q", id, Definition { priority: -id, ..with_budget(id % 3 + 1) }).into(),
                _ => heartbeat("q", id, "nobody").into(),
            })
            .collect(),
    ]
}

pub async fn commuting_commands_together_equal_the_same_one_by_one(fixture: Fixture) {
    let clock = fixture.clock.clone();
    let single = Fixture { store: Arc::new(ModelStore::new(Arc::new(clock.clone()))), clock };
    single.ok(create_queue("q")).await;
    for round in rounds() {
        fixture.clock.advance_seconds(1);
        let answers = together(&fixture, round.clone()).await;
        for (command, answer) in round.into_iter().zip(answers) {
            let said = format!("{command:?}");
            let expected = single.write(command).await;
            assert_eq!(super::agreement::comparable(answer), super::agreement::comparable(expected), "{said}");
        }
        assert_eq!(fixture.tasks("q").await, single.tasks("q").await);
        assert_kept_counts_are_right(&*fixture.store, "q").await;
    }
}

pub async fn claims_and_bulk_updates_never_mix(fixture: Fixture) {
    for id in 0..60 {
        fixture.create(id, Definition::default()).await;
    }
    for round in 1..6_i64 {
        let change = || Update { metadata: Some(object(&format!(r#"{{"p":{round}}}"#))), ..to_priority(round) };
        let mut commands = commands![update_all("q", "exists(id)", change())];
        commands.extend((0..10).map(|n| AnyCommand::from(claim("q", "default", format!("{round}x{n}")))));
        let answers = together(&fixture, commands).await;
        let Ok(AnyAnswer::Updated(Updated { matched, updated })) = answers[0] else { panic!("{:?}", answers[0]) };
        let consistent = |task: &Task| {
            let priority = task.definition.priority;
            let metadata = if priority == 0 { "{}".to_owned() } else { format!(r#"{{"p":{priority}}}"#) };
            task.definition.metadata.as_str() == metadata
        };
        for answer in &answers[1..] {
            let Ok(AnyAnswer::Claimed(Some(claimed))) = answer else { panic!("{answer:?}") };
            assert!(consistent(&claimed.task), "half an update: {claimed:?}");
        }
        let tasks = fixture.tasks("q").await;
        let new = tasks.iter().filter(|task| task.definition.priority == round).count() as u64;
        assert_eq!((matched, updated), (new, new), "updated and counted, or running and left out");
        assert!(tasks.iter().all(consistent));
    }
}

pub async fn a_busy_queue_loses_nothing(fixture: Fixture) {
    let mut workers = JoinSet::new();
    for worker in 0..8 {
        let store = Arc::clone(&fixture.store);
        workers.spawn(async move {
            let mut done = 0;
            for n in 0..12 {
                let name = format!("{worker}x{n}");
                store.write(create("q", &name, Definition::default())).await.unwrap();
                let claimed = store.write(claim("q", "default", &name)).await.unwrap();
                // Everyone creates one before claiming one, so there is always one left.
                let id = claimed.unwrap().task.id;
                let end = if n % 3 == 0 {
                    unclaim("q", &id.as_str()[2..], &name)
                } else {
                    complete("q", &id.as_str()[2..], &name, object("{}"))
                };
                store.write(end).await.unwrap();
                done += u64::from(n % 3 != 0);
            }
            done
        });
    }
    let done: u64 = workers.join_all().await.into_iter().sum();
    assert_eq!(done, 64);
    assert_eq!(fixture.count_by_status().await, [96 - done, 0, done, 0, 0]);
    assert_kept_counts_are_right(&*fixture.store, "q").await;
    let attempts: i64 = fixture.tasks("q").await.iter().map(|task| task.lifecycle.attempt).sum();
    assert_eq!(attempts, 64, "attempts are claims minus unclaims");
}

pub async fn a_storm_of_random_commands_keeps_every_invariant(fixture: Fixture) {
    for name in QUEUES {
        fixture.ok(create_queue(name)).await;
    }
    let mut generator = Generator::new(7);
    for _ in 0..25 {
        let mut commands = Vec::new();
        while commands.len() < 40 {
            match generator.step() {
                Step::Write(command) => commands.push(command),
                Step::Pass(micros) => fixture.clock.advance_micros(micros),
                Step::Live(_) | Step::Reopen => {}
            }
        }
        let answers = together(&fixture, commands.clone()).await;
        for (command, answer) in commands.iter().zip(&answers) {
            assert!(matches!(answer, Ok(_) | Err(StoreError::Refused(_))), "{command:?} gave {answer:?}");
            generator.learn(command, answer);
        }
        let mut runs = BTreeSet::new();
        for name in fixture.store.list_queues().await.unwrap() {
            assert_kept_counts_are_right(&*fixture.store, name.as_str()).await;
            for task in fixture.tasks(name.as_str()).await {
                assert_invariants(&task, &fixture);
                let run = task.lifecycle.run.map(|run| run.run_id);
                assert!(run.is_none_or(|run| runs.insert(run)), "one run owns two tasks: {run:?}");
            }
        }
    }
}

/// What holds for every task at any moment.
fn assert_invariants(task: &Task, fixture: &Fixture) {
    let Lifecycle { status, attempt, created_at, updated_at, started_at, finished_at, run, .. } = &task.lifecycle;
    let max_attempts = task.definition.max_attempts;
    assert_eq!(run.is_some(), *status == Status::Running, "{task:?}");
    assert!(*status != Status::Pending || *attempt < max_attempts, "{task:?}");
    assert!(*status != Status::Running || (1..=max_attempts).contains(attempt), "{task:?}");
    assert!(created_at <= updated_at && *updated_at <= fixture.now(), "{task:?}");
    assert!(started_at.is_none_or(|at| *created_at <= at && at <= *updated_at), "{task:?}");
    assert!(
        finished_at.is_none_or(|at| started_at.is_none_or(|started| started <= at) && at <= *updated_at),
        "{task:?}"
    );
}
