//! Bounds on the bytes that requests and answers hold in memory all together. A client that is slow with its megabytes
//! then costs other clients a wait, not the machine its memory.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::error::ApiError;

/// Whatever is at most this large needs no share: a list of 100 usual tasks is about 50 KiB.
pub(crate) const SMALL_BYTES: usize = 64 * 1024;

/// How long to wait for a share: as long as for a lock of the storage (decisions.md section 4).
const PATIENCE: Duration = Duration::from_secs(5);

/// Permits are KiB, because a semaphore hands out at most 2^32 at a time.
const PERMIT_BYTES: usize = 1024;

/// Room for 16 of the largest pages, or 256 of the largest bodies.
const USUAL_BYTES: usize = 256 * 1_048_576;

/// The budgets of a server.
pub struct Budgets {
    /// Of pages, from before they are read until their last byte is sent.
    pub(crate) pages: Budget,
    /// Of request bodies, until the request is answered.
    pub(crate) bodies: Budget,
}

impl Budgets {
    /// Budgets of so many bytes each.
    pub fn new(pages_bytes: usize, bodies_bytes: usize) -> Self {
        Self { pages: Budget::new(pages_bytes), bodies: Budget::new(bodies_bytes) }
    }
}

impl Default for Budgets {
    fn default() -> Self {
        Self::new(USUAL_BYTES, USUAL_BYTES)
    }
}

/// So many bytes and no more.
pub(crate) struct Budget {
    permits: Arc<Semaphore>,
    all: u32,
}

impl Budget {
    pub(crate) fn new(bytes: usize) -> Self {
        let all = permits_for(bytes);
        Self { permits: Arc::new(Semaphore::new(all as usize)), all }
    }

    /// A share of so many bytes, as soon as there is one; 503 when that takes too long.
    pub(crate) async fn take(&self, bytes: usize) -> Result<Share, ApiError> {
        // More than everything would never come.
        let permits = permits_for(bytes).min(self.all);
        match timeout(PATIENCE, Arc::clone(&self.permits).acquire_many_owned(permits)).await {
            Ok(Ok(permit)) => Ok(Share(permit)),
            // The semaphore is never closed, so this is about time.
            Ok(Err(_)) | Err(_) => Err(ApiError::busy()),
        }
    }
}

fn permits_for(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(PERMIT_BYTES)).unwrap_or(u32::MAX)
}

/// A part of a budget; dropping it gives it back.
#[derive(Debug)]
pub(crate) struct Share(OwnedSemaphorePermit);

impl Share {
    /// The bytes of an answer, which hold what they need of this share until the last slice of them is dropped. That is
    /// when the connection has sent them or given up: hyper takes a body at once and drops it, but keeps its bytes.
    pub(crate) fn hold(mut self, mut bytes: Vec<u8>) -> Bytes {
        if bytes.len() <= SMALL_BYTES {
            return bytes.into();
        }
        // A page grows while it is written, up to twice what it needs.
        bytes.shrink_to_fit();
        let needed = permits_for(bytes.capacity()) as usize;
        let spare = self.0.num_permits().saturating_sub(needed);
        drop(self.0.split(spare));
        Bytes::from_owner(Held { bytes, _share: self })
    }
}

/// Bytes with their share.
struct Held {
    bytes: Vec<u8>,
    _share: Share,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1_048_576;

    impl Budget {
        /// Bytes that nobody holds.
        fn free(&self) -> usize {
            self.permits.available_permits() * PERMIT_BYTES
        }
    }

    #[tokio::test]
    async fn an_answer_holds_its_size_until_its_last_slice_is_dropped() {
        let budget = Budget::new(20 * MIB);
        let share = budget.take(16 * MIB).await.unwrap();
        assert_eq!(budget.free(), 4 * MIB);
        let mut answer = share.hold(vec![b'x'; 2 * MIB]);
        assert_eq!(budget.free(), 18 * MIB);
        let first = answer.split_to(MIB);
        drop(answer);
        assert_eq!(budget.free(), 18 * MIB);
        assert_eq!(first.len(), MIB);
        drop(first);
        assert_eq!(budget.free(), 20 * MIB);
    }

    #[tokio::test]
    async fn a_small_answer_holds_nothing() {
        let budget = Budget::new(20 * MIB);
        let answer = budget.take(16 * MIB).await.unwrap().hold(vec![b'x'; SMALL_BYTES]);
        assert_eq!((budget.free(), answer.len()), (20 * MIB, SMALL_BYTES));
    }

    #[tokio::test(start_paused = true)]
    async fn who_finds_no_room_waits_for_it_but_not_for_ever() {
        let budget = Budget::new(4 * MIB);
        let share = budget.take(3 * MIB).await.unwrap();
        assert!(budget.take(2 * MIB).await.is_err());
        let (taken, ()) = tokio::join!(budget.take(2 * MIB), async { drop(share) });
        assert!(taken.is_ok());
    }

    #[tokio::test]
    async fn more_than_everything_is_everything() {
        let budget = Budget::new(MIB);
        let share = budget.take(16 * MIB).await.unwrap();
        assert_eq!(budget.free(), 0);
        drop(share.hold(vec![0; 2 * MIB]));
        assert_eq!(budget.free(), MIB);
    }
}
