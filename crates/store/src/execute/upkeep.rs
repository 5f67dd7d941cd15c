//! What is due and nobody asks for: tasks whose time has come, dependents that were left, ended tasks that are kept no longer. A
//! part of it at a time, so that others are served in between.

use super::dependents::settle_left;
use super::{Executed, QueueRef, delete_existing};
use crate::after_commit::AfterCommit;
use crate::command::Upkept;
use crate::transaction::{Outdated, RELEASED_AT_ONCE, Transaction};

/// Tasks that are deleted at most: some milliseconds, so that claims hardly notice.
const DELETED_AT_ONCE: usize = 250;

pub(super) fn upkeep<T: Transaction>(tx: &mut T, after_commit: &mut AfterCommit) -> Executed<Upkept> {
    let released = tx.release_delayed()?;
    if released > 0 {
        after_commit.claimable.poll_all();
    }
    let (settled, unsettled) = settle_left(tx, None, after_commit)?;
    let Outdated { mut tasks, more } = tx.find_outdated(DELETED_AT_ONCE)?;
    // Of two that a task waits for, the older one is named as deleted, whatever the store finds first.
    tasks.sort_unstable();
    let (mut deleted, mut is_full) = (0, false);
    for (queue, key) in tasks {
        is_full = after_commit.done.is_full();
        if is_full {
            break;
        }
        let before = tx.load_head(key)?;
        let settings = tx.load_settings(queue)?.unwrap_or_default();
        if settings.retention.is_outdated(&before.lifecycle, tx.now()) {
            delete_existing(tx, QueueRef { key: queue, name: None }, key, &before, after_commit)?;
            deleted += 1;
        }
    }
    let is_urgent = unsettled || released == RELEASED_AT_ONCE;
    Ok(Upkept { released: released as u64, settled, deleted, more: more || is_full || is_urgent, is_urgent })
}
