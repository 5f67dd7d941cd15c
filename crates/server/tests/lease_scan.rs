//! What a server repeats: the lease scan and the saving of activity. What becomes of a scan that fails, that both end with the
//! server, and that the last activity is saved before the store is closed.

#![allow(clippy::unwrap_used, reason = "a test may end by panic")]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use taskqueue_core::filter::ObservationFilter;
use taskqueue_core::grouping::{GroupPage, ObservationGroupQuery, TaskGroupQuery};
use taskqueue_core::ids::{QueueName, TaskId};
use taskqueue_core::observation::Observation;
use taskqueue_core::selection::{ObservationQuery, Page, TaskQuery, TaskSelection};
use taskqueue_core::stats::{ActivitySeries, QueueStats, SeriesSelection};
use taskqueue_core::task::Task;
use taskqueue_core::time::Timestamp;
use taskqueue_server::{Config, Listener, run};
use taskqueue_store::activity::ActivityLog;
use taskqueue_store::command::{ActOnTasks, Acted, BulkUpdate, Output, Scanned, Updated};
use taskqueue_store::figures::StoreFigures;
use taskqueue_store::page::{WriteTask, WrittenTasks};
use taskqueue_store::submission::Reply;
use taskqueue_store::waiting::Waiters;
use taskqueue_store::write_request::WriteRequest;
use taskqueue_store::{InstallationSecret, Store, StoreError};
use tokio::sync::Notify;

/// A store that only scans and saves activity. The scan at the start works, the next one panics, those behind it work again.
#[derive(Default)]
struct Scans {
    count: AtomicUsize,
    recovered: Notify,
    /// What else was done.
    done: Mutex<Vec<&'static str>>,
    waiters: Arc<Waiters>,
    activity: Arc<ActivityLog>,
}

#[async_trait]
impl Store for Scans {
    fn submit(&self, mut request: WriteRequest) -> Result<(), StoreError> {
        if let WriteRequest::SaveActivity(save) = &mut request {
            self.done.lock().unwrap().push("save");
            save.execute(|_| Ok(Timestamp::default()))?;
            save.release();
            return Ok(());
        }
        match self.count.fetch_add(1, Ordering::SeqCst) {
            0 => {}
            1 => panic!("the second scan"),
            _ => self.recovered.notify_one(),
        }
        let WriteRequest::Scan(scan) = &mut request else { panic!("{request:?}") };
        scan.execute(|_| Ok(Scanned::default()))?;
        scan.release();
        Ok(())
    }
    async fn update_tasks(&self, _: Arc<BulkUpdate>) -> Result<Updated, StoreError> {
        unreachable!()
    }
    async fn act_on_tasks(&self, _: Arc<ActOnTasks>) -> Result<Acted, StoreError> {
        unreachable!()
    }
    async fn list_queues(&self) -> Result<Vec<QueueName>, StoreError> {
        unreachable!()
    }
    async fn get_task(&self, _: &QueueName, _: TaskId) -> Result<Task, StoreError> {
        unreachable!()
    }
    async fn read_output(&self, _: &QueueName, _: TaskId, _: u64, _: usize) -> Result<Output, StoreError> {
        unreachable!()
    }
    async fn list_tasks(&self, _: &QueueName, _: TaskQuery, _: WriteTask) -> Result<WrittenTasks, StoreError> {
        unreachable!()
    }
    async fn count_tasks(&self, _: &QueueName, _: TaskSelection) -> Result<u64, StoreError> {
        unreachable!()
    }
    async fn group_tasks(&self, _: &QueueName, _: TaskGroupQuery) -> Result<GroupPage, StoreError> {
        unreachable!()
    }
    async fn list_workers(&self, _: &QueueName, _: ObservationQuery) -> Result<Page<Observation>, StoreError> {
        unreachable!()
    }
    async fn count_workers(&self, _: &QueueName, _: Option<ObservationFilter>) -> Result<u64, StoreError> {
        unreachable!()
    }
    async fn group_workers(&self, _: &QueueName, _: ObservationGroupQuery) -> Result<GroupPage, StoreError> {
        unreachable!()
    }
    async fn queue_stats(&self, _: &QueueName) -> Result<QueueStats, StoreError> {
        unreachable!()
    }
    async fn activity_series(&self, _: &QueueName, _: SeriesSelection) -> Result<ActivitySeries, StoreError> {
        unreachable!()
    }
    async fn figures(&self) -> Result<StoreFigures, StoreError> {
        unreachable!()
    }
    fn activity(&self) -> &Arc<ActivityLog> {
        &self.activity
    }
    fn waiters(&self) -> &Arc<Waiters> {
        &self.waiters
    }
    async fn installation_secret(&self) -> Result<InstallationSecret, StoreError> {
        Ok(InstallationSecret::from_bytes(&[7; 32]).unwrap())
    }
    async fn check(&self) -> Result<Vec<String>, StoreError> {
        unreachable!()
    }
    async fn close(&self) {
        self.done.lock().unwrap().push("close");
    }
}

#[tokio::test(start_paused = true)]
async fn a_scan_that_panics_begins_anew_and_ends_with_the_server() {
    let store = Arc::new(Scans::default());
    let listener = Listener::bind(&"127.0.0.1:0".parse().unwrap(), false).await.unwrap();
    let recovered = tokio::time::timeout(Duration::from_secs(15), store.recovered.notified());
    let shutdown = async { recovered.await.expect("a third scan before the pause counts as an outage") };
    run(listener, store.clone(), Config::new(None), || {}, shutdown).await.unwrap();

    let scans = store.count.load(Ordering::SeqCst);
    for _ in 0..10 {
        tokio::time::advance(Duration::from_secs(10)).await;
        tokio::task::yield_now().await;
    }
    assert_eq!(store.count.load(Ordering::SeqCst), scans, "no scan after the end");
    // The third scan was after ten seconds; whether the saves of that moment were before it is not said.
    let done = store.done.lock().unwrap().clone();
    assert!(matches!(&done[..], ["save", .., "save", "close"]) && done.len() <= 4, "{done:?}");
}
