//! Many callers at once: writes behave as if they happened one after the other, however a store batches them
//! (I1, I2, I15, I16, I19).

use std::collections::BTreeSet;

use taskqueue_core::soundness;
use tokio::task::JoinSet;

use super::prelude::*;

/// Writes everything at once, to one store after the other. The answers come in the order of the commands.
pub async fn together<W: Write>(stores: &[Arc<dyn Store>], commands: Vec<W>) -> Vec<Result<W::Answer, StoreError>> {
    let mut writes = JoinSet::new();
    for (index, command) in commands.into_iter().enumerate() {
        let store = Arc::clone(&stores[index % stores.len()]);
        writes.spawn(async move { (index, command.write_to(&*store).await) });
    }
    let mut answers = writes.join_all().await;
    answers.sort_by_key(|(index, _)| *index);
    answers.into_iter().map(|(_, answer)| answer).collect()
}

/// The one store of a fixture.
fn alone(fixture: &Fixture) -> &[Arc<dyn Store>] {
    std::slice::from_ref(&fixture.store)
}

pub async fn concurrent_claims_get_distinct_tasks(fixture: Fixture) {
    claims_get_distinct_tasks(&fixture, alone(&fixture), 50).await;
}

/// So many tasks of `q`, and more claims than that.
pub async fn claims_get_distinct_tasks(fixture: &Fixture, stores: &[Arc<dyn Store>], tasks: usize) {
    together(stores, (0..tasks).map(|id| create("q", id, Definition::default())).collect()).await;
    let answers = together(stores, (0..tasks * 5 / 4).map(|run| claim("q", "default", run)).collect()).await;
    let ids: Vec<_> = answers.into_iter().filter_map(|answer| answer.unwrap()).map(|claimed| claimed.task.id).collect();
    assert_eq!(ids.len(), tasks, "nobody went away empty-handed while something was pending");
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), tasks);
    assert_eq!(fixture.count_by_status().await, [0, tasks as u64, 0, 0, 0]);
    let runs: BTreeSet<_> =
        fixture.tasks("q").await.into_iter().map(|task| task.lifecycle.run.unwrap().run_id).collect();
    assert_eq!(runs.len(), tasks);
}

pub async fn concurrent_claims_with_one_run_id_take_one_task(fixture: Fixture) {
    each_run_id_takes_one_task(&fixture, alone(&fixture), 1).await;
}

/// So many run ids, each in claims for several queues and routes.
pub async fn each_run_id_takes_one_task(fixture: &Fixture, stores: &[Arc<dyn Store>], runs: usize) {
    fixture.ok(create_queue("other")).await;
    for id in 0..10 {
        fixture.create(id, with_routes(&["a", "b"])).await;
        fixture.ok(create("other", id, with_routes(&["a"]))).await;
    }
    for run in 0..runs {
        let name = |n: usize| if n.is_multiple_of(3) { "other" } else { "q" };
        let claims = (0..48).map(|n| claim(name(n), ["a", "b"][n / 2 % 2], run)).collect();
        let mut taken = BTreeSet::new();
        for answer in together(stores, claims).await {
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
    }
    let running = async |name| fixture.store.count_tasks(&queue(name), of_status(Status::Running)).await.unwrap();
    assert_eq!(running("q").await + running("other").await, runs as u64);
}

pub async fn concurrent_creations_of_one_id_create_one_task(fixture: Fixture) {
    creations_of_one_id_create_one_task(&fixture, alone(&fixture)).await;
}

/// Half of them have another definition.
pub async fn creations_of_one_id_create_one_task(fixture: &Fixture, stores: &[Arc<dyn Store>]) {
    for id in 0..5 {
        let creations = (0..64).map(|n| create("q", id, with_priority(n / 2 % 2))).collect();
        let (mut created, mut replayed, mut refused) = (0, 0, 0);
        for answer in together(stores, creations).await {
            match answer {
                Ok(CreatedTask { created: true, .. }) => created += 1,
                Ok(CreatedTask { created: false, .. }) => replayed += 1,
                Err(StoreError::Refused(Refusal::TaskIdConflict { .. })) => refused += 1,
                other => panic!("{other:?}"),
            }
        }
        assert_eq!((created, replayed, refused), (1, 31, 32));
    }
    assert_eq!(fixture.count(all()).await, 5);
    let queues = together(stores, (0..40).map(|_| create_queue("new")).collect()).await;
    assert_eq!(queues.iter().filter(|answer| **answer == Ok(true)).count(), 1);
    assert_eq!(queues.iter().filter(|answer| **answer == Ok(false)).count(), 39);
}

pub async fn concurrent_reports_end_a_run_once(fixture: Fixture) {
    fixture.create_running(1, Definition::default()).await;
    let mut commands = Vec::new();
    for n in 0..8 {
        commands.push(complete("q", 1, 1, object(&format!(r#"{{"n":{n}}}"#))));
        commands.push(fail_with("q", 1, 1, failure(&n.to_string())));
        commands.push(unclaim("q", 1, 1));
    }
    let accepted: Vec<usize> = together(alone(&fixture), commands)
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
        let answers = together(alone(&fixture), commands).await;
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
    let single = fixture.model().await;
    for round in rounds() {
        fixture.clock.advance_seconds(1);
        let answers = together(alone(&fixture), round.clone()).await;
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
    bulk_updates_and_claims_never_mix(&fixture, alone(&fixture)).await;
}

/// The first store updates, all of them claim.
pub async fn bulk_updates_and_claims_never_mix(fixture: &Fixture, stores: &[Arc<dyn Store>]) {
    fixture.ok(create_all(0..60)).await;
    for round in 1..6_i64 {
        let change = || Update { metadata: Some(object(&format!(r#"{{"p":{round}}}"#))), ..to_priority(round) };
        let mut commands = commands![update_all("q", "exists(id)", change())];
        commands.extend((0..11).map(|n| AnyCommand::from(claim("q", "default", format!("{round}x{n}")))));
        let answers = together(stores, commands).await;
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
    busy_workers_lose_nothing(&fixture, alone(&fixture)).await;
}

/// Workers that each create, claim, end and read tasks at one of the stores.
pub async fn busy_workers_lose_nothing(fixture: &Fixture, stores: &[Arc<dyn Store>]) {
    let mut workers = JoinSet::new();
    for worker in 0..8 {
        let store = Arc::clone(&stores[worker % stores.len()]);
        workers.spawn(async move {
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
                store.get_task(&queue("q"), id).await.unwrap();
            }
        });
    }
    workers.join_all().await;
    assert_eq!(fixture.count_by_status().await, [32, 0, 64, 0, 0]);
    assert_kept_counts_are_right(&*fixture.store, "q").await;
    let attempts: i64 = fixture.tasks("q").await.iter().map(|task| task.lifecycle.attempt).sum();
    assert_eq!(attempts, 64, "attempts are claims minus unclaims");
}

pub async fn a_storm_of_random_commands_keeps_every_invariant(fixture: Fixture) {
    storm(&fixture, alone(&fixture), 7, [25, 40], async || {}).await;
}

/// So many rounds of so many random commands at once. What tests say holds after each of them.
pub async fn storm(
    fixture: &Fixture,
    stores: &[Arc<dyn Store>],
    seed: u64,
    [rounds, of_commands]: [usize; 2],
    assert_more: impl AsyncFn(),
) {
    for name in QUEUES {
        fixture.ok(create_queue(name)).await;
    }
    let mut generator = Generator::new(seed);
    for _ in 0..rounds {
        let mut commands = Vec::new();
        while commands.len() < of_commands {
            match generator.step() {
                Step::Write(command) => commands.push(command),
                Step::Pass(micros) => fixture.clock.advance_micros(micros),
                Step::Live(_) | Step::Reopen => {}
            }
        }
        let answers = together(stores, commands.clone()).await;
        for (command, answer) in commands.iter().zip(&answers) {
            assert!(matches!(answer, Ok(_) | Err(StoreError::Refused(_))), "{command:?} gave {answer:?}");
            generator.learn(command, answer);
        }
        assert_more().await;
        let mut runs = BTreeSet::new();
        for name in fixture.store.list_queues().await.unwrap() {
            assert_kept_counts_are_right(&*fixture.store, name.as_str()).await;
            for task in fixture.tasks(name.as_str()).await {
                assert_eq!(soundness::task(&task, &task.head()), [], "{task:?}");
                assert!(task.lifecycle.updated_at <= fixture.now(), "{task:?}");
                let run = task.lifecycle.run.map(|run| run.run_id);
                assert!(run.is_none_or(|run| runs.insert(run)), "one run owns two tasks: {run:?}");
            }
        }
    }
}
