//! Commands of several items on several servers: together they behave as one (I1, I2, I3, I10).

use std::collections::BTreeSet;

use taskqueue_store::conformance::prelude::*;
use tokio::task::JoinSet;

use crate::servers::Servers;

fn tasks(items: &ClaimedItems) -> Vec<Option<String>> {
    items.iter().map(|item| item.as_ref().unwrap().as_ref().map(|claimed| claimed.task.id.to_string())).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_claims_sent_to_two_servers_take_their_tasks_once() {
    let servers = Servers::open(2).await;
    let (fixture, stores) = (&servers.fixture, &servers.stores);
    for round in 0..8 {
        fixture.ok(create_all((0..20).map(|n| format!("{round}x{n}")))).await;
        let mut claims = JoinSet::new();
        for n in 0..6 {
            let (store, runs) = (Arc::clone(&stores[n % 2]), (0..30).map(move |run| format!("{round}x{run}")));
            claims.spawn(async move { tasks(&store.write(claim_all(runs)).await.unwrap()) });
        }
        let answers: BTreeSet<Vec<Option<String>>> = claims.join_all().await.into_iter().collect();
        assert_eq!(answers.len(), 1, "every repetition gets the same");
        let claimed: Vec<&String> = answers.iter().flatten().flatten().collect();
        assert_eq!((claimed.len(), claimed.iter().collect::<BTreeSet<_>>().len()), (20, 20));
    }
    assert_eq!(fixture.count_by_status().await, [0, 160, 0, 0, 0]);
    servers.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_of_two_servers_finish_everything_once() {
    let servers = Servers::open(2).await;
    let (fixture, stores) = (&servers.fixture, &servers.stores);
    let mut workers = JoinSet::new();
    for worker in 0..4 {
        let store = Arc::clone(&stores[worker % 2]);
        workers.spawn(async move {
            let mut done = 0;
            for round in 0..4 {
                let name = |n: usize| format!("{worker}x{round}x{n}");
                store.write(create_all((0..10).map(name))).await.unwrap();
                let items = store.write(claim_all((0..10).map(name))).await.unwrap();
                let ended = items.iter().flatten().flatten().map(|claimed| {
                    let (id, run) = (&claimed.task.id.as_str()[2..], &claimed.run_id.as_str()[2..]);
                    RunItem::from(complete("q", id, run, object("{}")))
                });
                let reports = store.write(report_all(ended)).await.unwrap();
                assert!(reports.iter().all(Result::is_ok), "{reports:?}");
                done += reports.len();
            }
            done
        });
    }
    let done: usize = workers.join_all().await.into_iter().sum();
    assert_eq!(done, 160, "everyone creates as many as it claims, so there is always one left");
    assert_eq!(fixture.count_by_status().await, [0, 0, 160, 0, 0]);
    servers.end().await;
}
