//! What a command of several items loads from the database: no more than its answer holds and a few MiB ahead, however large the
//! tasks are (docs/memory.md).

use taskqueue_core::limits::TASK_ROUTES;
use taskqueue_store::conformance::prelude::*;

use crate::proxy::Proxied;

const MIB: usize = 1_048_576;
/// What the largest tasks of a test have, each.
const LARGE: usize = 900_000;
/// What is picked whole, and what is loaded ahead with the last task.
const AHEAD: usize = 16 * MIB + 6 * MIB;

impl Proxied {
    async fn ok<C: Command>(&self, command: C) -> C::Answer {
        self.store.write(command).await.unwrap()
    }

    /// The answer of a command, and how many bytes came from the database for it.
    async fn loaded_for<C: Command>(&self, command: C) -> (C::Answer, usize) {
        let before = self.proxy.answered();
        let answer = self.ok(command).await;
        (answer, self.proxy.answered() - before)
    }

    /// Tasks that wait for their second run, with a large error of the first one. Nothing else of them is large.
    async fn failed_once(&self, tasks: usize) {
        self.ok(create_all(0..tasks)).await;
        let claims = self.ok(claim_all((0..tasks).map(|n| format!("first{n}")))).await;
        let traceback: Arc<str> = "x".repeat(LARGE).into();
        for claimed in claims.iter().flatten().flatten() {
            let failure = Failure { traceback: Some(Arc::clone(&traceback)), ..failure("no") };
            let (id, run) = (&claimed.task.id.as_str()[2..], &claimed.run_id.as_str()[2..]);
            self.ok(report_all([RunItem::from(fail_with("q", id, run, failure))])).await;
        }
    }

    /// Running tasks of the routes `default` and `other`, with large args. Run ids are 0, 1, 2, ...
    async fn running(&self, tasks: usize) {
        let large = Definition { args: object_of_bytes(LARGE), ..with_routes(&["default", "other"]) };
        for n in 0..tasks {
            self.ok(create("q", n, large.clone())).await;
            self.ok(claim("q", "default", n)).await.unwrap();
        }
    }
}

fn bytes_of_error(claimed: &Claimed) -> usize {
    let error = claimed.task.outcome.last_error.as_ref();
    error.and_then(|error| error.failure.traceback.as_ref()).map_or(0, |text| text.len())
}

fn claimed(items: &ClaimedItems) -> usize {
    items.iter().flatten().flatten().count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claims_of_several_load_no_more_errors_than_their_answer_holds() {
    let fixture = Proxied::open().await;
    fixture.failed_once(40).await;
    let command = |runs: &str, most_bytes| {
        let runs: Vec<String> = (0..40).map(|n| format!("{runs}{n}")).collect();
        ClaimTasks { measure: bytes_of_error, most_bytes, ..claim_all(runs) }
    };
    let (items, loaded) = fixture.loaded_for(command("second", 2 * MIB)).await;
    assert_eq!(claimed(&items), 2);
    assert!(loaded < AHEAD, "{} MiB came", loaded / MIB);
    let (items, loaded) = fixture.loaded_for(command("third", usize::MAX)).await;
    let expected = (38, Some(LARGE));
    assert_eq!((claimed(&items), items.iter().flatten().flatten().map(|task| bytes_of_error(task)).min()), expected);
    assert!(loaded > 38 * LARGE, "everything comes if everything is wanted: {loaded}");
    fixture.end().await;
}

/// A claim clears the progress of earlier runs, so that its answer holds none of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claims_of_several_load_no_more_progress_than_of_a_few_tasks() {
    let fixture = Proxied::open().await;
    fixture.ok(create_all(0..40)).await;
    fixture.ok(claim_all(0..40)).await;
    let large = object_of_bytes(LARGE);
    for n in 0..40 {
        fixture.ok(ReportProgress { progress: large.clone(), ..progress(n, n, "{}") }).await;
        fixture.ok(report_all([RunItem::from(unclaim("q", n, n))])).await;
    }
    let runs = (0..40).map(|n| format!("second{n}"));
    let command = ClaimTasks { measure: |_| 1, most_bytes: 2, ..claim_all(runs) };
    let (items, loaded) = fixture.loaded_for(command).await;
    assert_eq!(claimed(&items), 2);
    assert!(loaded < AHEAD, "{} MiB came", loaded / MIB);
    assert!(items.iter().flatten().flatten().all(|claimed| claimed.task.outcome.progress.is_none()));
    fixture.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn progress_loads_no_result_and_output_loads_no_output() {
    let fixture = Proxied::open().await;
    fixture.ok(create("q", 1, Definition::default())).await;
    fixture.ok(update("q", 1, Update { result: Some(object_of_bytes(LARGE)), ..Update::default() })).await;
    fixture.ok(claim("q", "default", 2)).await.unwrap();
    fixture.ok(AddOutput { most_bytes: MIB, ..print(1, 2, 0, &"x".repeat(65_536)) }).await;
    let (_, loaded) = fixture.loaded_for(progress(1, 2, r#"{"step":1}"#)).await;
    assert!(loaded < 10_000, "{loaded} bytes came");
    let (_, loaded) = fixture.loaded_for(AddOutput { most_bytes: MIB, ..print(1, 2, 65_536, "more") }).await;
    assert!(loaded < 10_000, "{loaded} bytes came");
    fixture.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn repeated_claims_that_are_refused_load_no_json() {
    let fixture = Proxied::open().await;
    fixture.running(20).await;
    let other = ClaimTasks { route: route("other"), ..claim_all(0..20) };
    let (items, loaded) = fixture.loaded_for(other).await;
    for item in &items {
        assert!(matches!(item, Err(StoreError::Refused(Refusal::RunIdConflict { .. }))), "{item:?}");
    }
    assert!(loaded < LARGE, "{loaded} bytes came");
    let (answer, loaded) = {
        let before = fixture.proxy.answered();
        (fixture.store.write(claim("q", "other", 3)).await, fixture.proxy.answered() - before)
    };
    assert!(answer.is_err() && loaded < LARGE, "{loaded} bytes came");
    let (items, loaded) = fixture.loaded_for(claim_all(0..20)).await;
    assert_eq!(claimed(&items), 20);
    assert!(items.iter().flatten().flatten().all(|claimed| bytes_of_args(claimed) >= LARGE) && loaded > 20 * LARGE);
    fixture.end().await;
}

/// A task may be the oldest one of each of its routes, and their names are most of what it has.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stats_load_each_route_once_and_no_task_for_each_of_its_routes() {
    let fixture = Proxied::open().await;
    const TASKS: usize = 4;
    for task in 0..TASKS {
        let names: Vec<String> = (0..TASK_ROUTES).map(|n| format!("{task}-{n:0>126}")).collect();
        fixture.ok(create("q", task, with_routes(&names))).await;
    }
    let before = fixture.proxy.answered();
    let figures = fixture.store.queue_stats(&queue("q"), &ALL_ROUTES).await.unwrap().figures;
    let loaded = fixture.proxy.answered() - before;
    assert_eq!(figures.routes().filter(|(_, route)| route.oldest_pending.is_some()).count(), TASKS * TASK_ROUTES);
    assert!(loaded < MIB, "{} KiB came", loaded / 1024);
    fixture.end().await;
}
