//! Reads that look at much: they take turns with others, and end when nobody waits for them. For backends that read
//! outside the caller; the model does not.

use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use super::page_reader;
use super::prelude::*;

/// Long reads at a time, fewer than every backend allows.
const LONG: usize = 8;
/// How long anything may take that must not wait for long reads: they take a multiple of it.
const SOON: Duration = Duration::from_secs(5);

/// A queue of large tasks, and one with a small task.
async fn large_and_small(fixture: Fixture) -> Fixture {
    let items: Vec<String> = (0..40_000).map(|number| format!("\"i{number:05}\"")).collect();
    let args = object(&format!("{{\"list\":[{}]}}", items.join(",")));
    for number in 0..24 {
        fixture.create(number, Definition { args: args.clone(), ..Definition::default() }).await;
    }
    fixture.ok(create_queue("small")).await;
    fixture.ok(create("small", 1, named("x"))).await;
    fixture
}

/// Reads that look at everything again and again, until they are aborted or refused.
fn long_reads(store: &Arc<dyn Store>) -> Vec<JoinHandle<StoreError>> {
    let parts: Vec<String> = (0..250).map(|number| format!("'none{number}' not in args.list")).collect();
    let selection = filtered(&parts.join(" and "));
    let again = |number: usize| {
        let (store, selection) = (Arc::clone(store), selection.clone());
        let order = TaskOrder { field: OrderField::Priority, descending: true };
        let query = TaskQuery { selection: selection.clone(), order, limit: 1, after: None, max_bytes: PAGE_BYTES };
        async move {
            loop {
                let read = match number % 2 {
                    0 => store.count_tasks(&queue("q"), selection.clone()).await.map(drop),
                    _ => page_reader::list(&*store, &queue("q"), query.clone()).await.map(drop),
                };
                if let Err(error) = read {
                    return error;
                }
            }
        }
    };
    (0..LONG).map(|number| tokio::spawn(again(number))).collect()
}

/// Waits until all of them are read.
async fn until_all_read(store: &Arc<dyn Store>) {
    until_under_way(store, LONG, 12 * SOON).await;
}

async fn until_under_way(store: &Arc<dyn Store>, number: usize, within: Duration) {
    let end = Instant::now() + within;
    while store.process_figures().long_reads != number {
        assert!(Instant::now() < end, "{} reads instead of {number}", store.process_figures().long_reads);
        sleep(Duration::from_millis(1)).await;
    }
}

pub async fn short_reads_end_while_long_ones_run(fixture: Fixture) {
    let fixture = large_and_small(fixture).await;
    let (store, small) = (&fixture.store, queue("small"));
    let long = long_reads(store);
    until_all_read(store).await;
    let short = async {
        for _ in 0..5 {
            assert_eq!(store.check().await, Ok(Vec::new()));
            assert_eq!(store.list_queues().await.map(|queues| queues.len()), Ok(2));
            assert!(store.get_task(&small, task_id(1)).await.is_ok());
            assert_eq!(store.count_tasks(&small, all()).await, Ok(1));
            assert_eq!(store.count_tasks(&small, fuzzy("x")).await, Ok(1));
            assert_eq!(store.count_tasks(&small, filtered("args.x == 1")).await, Ok(0));
            for selection in [all(), filtered("missing(args.x)")] {
                let page = fixture.page("small", &selection, TaskOrder::default(), 10, None).await;
                assert_eq!(page.items.len(), 1);
            }
            assert_eq!(store.count_workers(&small, Some(observation_filter("route == 'x'"))).await, Ok(0));
        }
    };
    // The long ones never end by themselves, so any time proves it.
    assert!(timeout(12 * SOON, short).await.is_ok(), "they waited behind the long reads");
    assert!(long.iter().all(|read| !read.is_finished()), "long reads go on");
    long.iter().for_each(JoinHandle::abort);
}

pub async fn a_read_that_nobody_waits_for_any_more_ends_soon(fixture: Fixture) {
    let fixture = large_and_small(fixture).await;
    let long = long_reads(&fixture.store);
    until_all_read(&fixture.store).await;
    long.iter().for_each(JoinHandle::abort);
    until_under_way(&fixture.store, 0, SOON).await;
    assert_eq!(fixture.count(filtered("missing(args.none)")).await, 24, "others read as before");
}

pub async fn closing_the_store_ends_its_long_reads(fixture: Fixture) {
    let fixture = large_and_small(fixture).await;
    let long = long_reads(&fixture.store);
    until_all_read(&fixture.store).await;
    assert!(timeout(SOON, fixture.store.close()).await.is_ok(), "closing waited for them");
    for read in long {
        assert_eq!(timeout(SOON, read).await.unwrap().unwrap(), StoreError::Unavailable);
    }
}
