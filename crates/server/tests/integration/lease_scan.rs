//! What a server repeats: the lease scan and the saving of activity. What becomes of a scan that fails, that both end with the
//! server, and that the last activity is saved before the store is closed.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use taskqueue_core::time::Timestamp;
use taskqueue_server::Config;
use taskqueue_store::StoreError;
use taskqueue_store::command::Scanned;
use taskqueue_store::conformance::model::ModelStore;
use taskqueue_store::conformance::model::variant::ModelVariant;
use taskqueue_store::submission::Reply;
use taskqueue_store::write_request::WriteRequest;
use tokio::sync::Notify;

use crate::support::model;
use crate::support::served::run_over;

/// A store that only scans and saves activity. The scan at the start works, the next one panics, those behind it work again.
struct Scans {
    model: ModelStore,
    count: AtomicUsize,
    recovered: Notify,
    /// What else was done.
    done: Mutex<Vec<&'static str>>,
}

#[async_trait]
impl ModelVariant for Scans {
    fn model(&self) -> &ModelStore {
        &self.model
    }

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
    fn has_no_upkeep(&self) -> bool {
        true
    }
    async fn close(&self) {
        self.done.lock().unwrap().push("close");
    }
}

#[tokio::test(start_paused = true)]
async fn a_scan_that_panics_begins_anew_and_ends_with_the_server() {
    let (count, recovered, done) = (AtomicUsize::new(0), Notify::new(), Mutex::default());
    let store = Arc::new(Scans { model: model(), count, recovered, done });
    let server = run_over(store.clone(), "127.0.0.1:0", Config::new(None)).await;
    let recovered = tokio::time::timeout(Duration::from_secs(15), store.recovered.notified());
    recovered.await.expect("a third scan before the pause counts as an outage");
    server.end().await;

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
