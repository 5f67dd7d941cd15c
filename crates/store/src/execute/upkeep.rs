//! What is due and nobody asks for: leases that are over, tasks whose time has come, dependents that were left, ended tasks that are
//! kept no longer. A part of it at a time, so that others are served in between.

use taskqueue_core::lease;
use taskqueue_core::lifecycle::{self, Change};
use taskqueue_core::task::Lifecycle;
use taskqueue_core::time::Timestamp;

use super::{Execution, QueueRef};
use crate::StoreResult;
use crate::command::{Scan, Scanned, Upkeep, UpkeepReport};
use crate::transaction::{BatchTransaction, Outdated, Over, RELEASED_AT_ONCE, Transaction};
use crate::weight::MAX_ITEMS;

/// Tasks that are deleted at most: some milliseconds, so that claims hardly notice.
const DELETED_AT_ONCE: usize = 250;

/// Run ids of deleted tasks that one scan forgets at most: some ten milliseconds. At a scan every 5 seconds that is more
/// than can be deleted for a day without running out of disk first.
const FORGOTTEN_AT_ONCE: u32 = 10_000;

impl<T: BatchTransaction> Execution<'_, T> {
    pub(crate) fn upkeep(&mut self, _: &Upkeep) -> StoreResult<UpkeepReport> {
        let released = self.tx.release_delayed()?;
        if released > 0 {
            self.after_commit.claimable.poll_all = true;
        }
        let (settled, unsettled) = self.settle_left(None)?;
        let Outdated { mut tasks, more } = self.tx.find_outdated(DELETED_AT_ONCE)?;
        // Of two that a task waits for, the older one is named as deleted, whatever the store finds first.
        tasks.sort_unstable();
        let (mut deleted, mut is_full) = (0, false);
        for (queue, key) in tasks {
            is_full = self.after_commit.done.is_full();
            if is_full {
                break;
            }
            let before = self.tx.load_head(key)?;
            let settings = self.tx.load_settings(queue)?.unwrap_or_default();
            if settings.retention.is_outdated(&before.lifecycle, self.tx.now()) {
                self.delete_existing(QueueRef { key: queue, name: None }, key, &before)?;
                deleted += 1;
            }
        }
        let is_urgent = unsettled || released == RELEASED_AT_ONCE;
        Ok(UpkeepReport { released: released as u64, settled, deleted, more: more || is_full || is_urgent, is_urgent })
    }

    /// The lease scan. The outage credit has been granted before, so that nothing expires because of an outage.
    pub(crate) fn scan(&mut self, _: &Scan) -> StoreResult<Scanned> {
        let mut scanned = Scanned { credited_runs: self.credited_runs, ..Scanned::default() };
        // One more than fits shows that there is a next scan.
        for (n, (queue, key)) in self.tx.running_until(self.tx.now(), MAX_ITEMS + 1)?.into_iter().enumerate() {
            scanned.more = n == MAX_ITEMS || self.after_commit.done.is_full();
            if scanned.more {
                break;
            }
            let before = self.tx.load_head(key)?;
            if let Some(change) = lifecycle::expire(&before, self.tx.now(), self.tx.next_pending_seq()) {
                // The scan knows the storage's numbers of queues and not their names, so that all waiters look again.
                let queue = QueueRef { key: queue, name: None };
                self.save_change(queue, key, &before, &change)?;
                scanned.expired_runs += 1;
            }
        }
        self.tx.forget(Over::DeletedRuns { most: FORGOTTEN_AT_ONCE })?;
        scanned.expired_observations = self.tx.forget(Over::Observations)?;
        self.tx.save_scan()?;
        Ok(scanned)
    }
}

/// By how much running leases are lengthened after an outage.
#[derive(Clone, Copy, Debug)]
pub struct OutageCredit {
    /// 0 for not at all.
    pub seconds: i64,
    /// When the leases were last scanned.
    pub last_scan_at: Option<Timestamp>,
}

/// Lengthens the running leases if no scan took place for too long. Every transaction begins with this, because a
/// heartbeat may come before the next scan.
pub fn credit_after_outage<T: Transaction>(
    tx: &mut T,
    OutageCredit { seconds, last_scan_at }: OutageCredit,
) -> StoreResult<u64> {
    let now = tx.now();
    let out = last_scan_at.is_some_and(|last| lease::is_longer_than_outage(last, now));
    if !out || seconds == 0 {
        return Ok(0);
    }
    let mut credited = 0;
    for (queue, key) in tx.running_until(now.plus_seconds(seconds), usize::MAX)? {
        let before = tx.load_head(key)?;
        let Some(run) = before.lifecycle.run else { continue };
        let with_credit = lease::credited_run(run, now, seconds);
        if with_credit != run {
            let lifecycle = Lifecycle { run: Some(with_credit), ..before.lifecycle.clone() };
            tx.save_change(queue, key, &before, &Change::of_lifecycle(lifecycle))?;
            credited += 1;
        }
    }
    tx.save_scan()?;
    Ok(credited)
}
