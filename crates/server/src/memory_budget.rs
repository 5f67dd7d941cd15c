//! Bounds on the bytes that requests and answers hold in memory all together. A client that is slow with its megabytes
//! then costs other clients a wait, not the machine its memory. How large the budgets are is decided in `memory_plan.rs`, what
//! becomes of the slow when room is scarce in `connection/send_pace.rs` and `extract/body.rs`.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use taskqueue_core::limits::{REQUEST_BODY_BYTES, TASK_DATA_BYTES};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::error::ApiError;
use crate::memory_plan::MemoryPlan;

/// An answer that is at most this large is not counted while it is sent: every connection may hold one.
pub(crate) const SMALL_ANSWER_BYTES: usize = 8 * 1024;
/// The same for the body of a request.
pub(crate) const SMALL_BODY_BYTES: usize = 4 * 1024;
/// What the fields of a task, of a claim and of the end of a page take besides the texts of the task.
const FRAME_BYTES: usize = 4 * 1024;
/// The largest task in an answer: its stored data, and the error of its last run, which came in a body.
pub(crate) const TASK_BYTES: usize = TASK_DATA_BYTES + REQUEST_BODY_BYTES + FRAME_BYTES;
/// What the parsed form of a body takes for each of its bytes: `[1],` is a value of 32 bytes and a list with room for 4.
const PARSED_FACTOR: usize = 48;

/// How long to wait for a share: as long as for a lock of the storage (decisions.md section 4).
const PATIENCE: Duration = Duration::from_secs(5);
/// How long to wait for more of it. Those who wait hold what they have, perhaps all of it together, and then only a refusal
/// makes room.
const GROW_PATIENCE: Duration = Duration::from_millis(250);

/// Permits are KiB, because a semaphore hands out at most 2^32 at a time.
const PERMIT_BYTES: usize = 1024;

/// The highest scarcity: 2^7 times as fast as usual is 1.7 MB/s for those who take answers.
const SCARCITY_MAX: u32 = 7;

/// The budgets of a server.
pub struct Budgets {
    /// Of answers, from before they are made until their last byte is sent.
    pub(crate) answers: Budget,
    /// Of bodies, from when they prove to be large until they are answered.
    pub(crate) bodies: Budget,
    /// Of large heads. They come before the token is known, and must not take the room of bodies.
    pub(crate) heads: Budget,
    /// Of bodies while they are parsed.
    parsing: Budget,
    /// What the last list of queues took: nothing else tells how long the next one will be.
    queues_bytes: AtomicUsize,
}

impl Budgets {
    /// Budgets of these sizes.
    pub fn new(plan: &MemoryPlan) -> Self {
        Self {
            answers: Budget::new(plan.answers_bytes),
            bodies: Budget::new(plan.requests_bytes / 4 * 3),
            heads: Budget::new(plan.requests_bytes / 4),
            parsing: Budget::new(plan.parsing_bytes),
            queues_bytes: AtomicUsize::new(0),
        }
    }

    /// Room for an answer with one task, whatever its size.
    pub(crate) async fn for_task(&self) -> Result<Reservation, ApiError> {
        self.answers.take(TASK_BYTES).await
    }

    /// Room for a page that wants so many bytes: at least one task, and of the rest not more than half of what is free.
    /// So pages become smaller as room becomes scarce, and nobody has to wait for a large one.
    pub(crate) async fn for_page(&self, wanted_bytes: usize) -> Result<Reservation, ApiError> {
        let mut share = self.for_task().await?;
        let more = wanted_bytes.saturating_sub(TASK_BYTES).min(self.answers.free_bytes() / 2);
        share.merge(self.answers.try_take(more));
        Ok(share)
    }

    /// Room for a list of all queues: as much as the last one took, or for a task if that is more.
    pub(crate) async fn for_queues(&self) -> Result<Reservation, ApiError> {
        self.answers.take(self.queues_bytes.load(Ordering::Relaxed).max(TASK_BYTES)).await
    }

    /// Remembers how much a list of all queues takes, and makes its room larger if it was too small.
    pub(crate) async fn queues_take(&self, share: &mut Reservation, bytes: usize) -> Result<(), ApiError> {
        self.queues_bytes.store(bytes, Ordering::Relaxed);
        self.answers.grow(share, bytes).await
    }

    /// Room for parsing a body of so many bytes; small ones need none.
    pub(crate) async fn for_parsing(&self, body_bytes: usize) -> Result<Option<Reservation>, ApiError> {
        match body_bytes {
            0..=SMALL_BODY_BYTES => Ok(None),
            _ => self.parsing.take(body_bytes * PARSED_FACTOR).await.map(Some),
        }
    }
}

impl Default for Budgets {
    fn default() -> Self {
        Self::new(&MemoryPlan::of_this_process())
    }
}

/// So many bytes and no more. Clones are of the same budget.
#[derive(Clone)]
pub(crate) struct Budget {
    permits: Arc<Semaphore>,
    all: u32,
    /// What is held by answers that are being sent, in permits.
    sending: Arc<AtomicUsize>,
}

impl Budget {
    pub(crate) fn new(bytes: usize) -> Self {
        let all = permits_for(bytes);
        Self { permits: Arc::new(Semaphore::new(all as usize)), all, sending: Arc::default() }
    }

    /// A share of so many bytes, as soon as there is one; 503 when that takes too long.
    pub(crate) async fn take(&self, bytes: usize) -> Result<Reservation, ApiError> {
        self.take_within(bytes, PATIENCE).await
    }

    async fn take_within(&self, bytes: usize, patience: Duration) -> Result<Reservation, ApiError> {
        // More than everything would never come.
        let permits = permits_for(bytes).min(self.all);
        match timeout(patience, Arc::clone(&self.permits).acquire_many_owned(permits)).await {
            Ok(Ok(permit)) => Ok(self.share(permit)),
            // The semaphore is never closed, so this is about time.
            Ok(Err(_)) | Err(_) => Err(ApiError::busy()),
        }
    }

    /// A share of so many bytes if it is free now.
    pub(crate) fn try_take(&self, bytes: usize) -> Option<Reservation> {
        Arc::clone(&self.permits).try_acquire_many_owned(permits_for(bytes)).ok().map(|permit| self.share(permit))
    }

    fn share(&self, permit: OwnedSemaphorePermit) -> Reservation {
        Reservation { permit, sending: Arc::clone(&self.sending) }
    }

    /// Makes a share as large as this, if it is smaller.
    pub(crate) async fn grow(&self, share: &mut Reservation, bytes: usize) -> Result<(), ApiError> {
        let missing = bytes.min(self.all as usize * PERMIT_BYTES).saturating_sub(share.bytes());
        if missing > 0 {
            share.merge(Some(self.take_within(missing, GROW_PATIENCE).await?));
        }
        Ok(())
    }

    /// What nobody holds.
    pub(crate) fn free_bytes(&self) -> usize {
        self.permits.available_permits() * PERMIT_BYTES
    }

    /// How scarce room is: nothing as long as a quarter is free, then one more each time that what is free has halved.
    /// Those who are slow have to be twice as fast for each.
    pub(crate) fn scarcity(&self) -> u32 {
        scarcity(self.permits.available_permits(), self.all as usize)
    }

    /// The same for those who take answers: what is only reserved, for the milliseconds in which an answer is made, is not
    /// their fault.
    pub(crate) fn sending_scarcity(&self) -> u32 {
        let all = self.all as usize;
        scarcity(all.saturating_sub(self.sending.load(Ordering::Relaxed)), all)
    }
}

fn permits_for(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(PERMIT_BYTES)).unwrap_or(u32::MAX)
}

fn scarcity(free: usize, all: usize) -> u32 {
    let parts = all.checked_div(free).unwrap_or(usize::MAX);
    parts.max(1).ilog2().saturating_sub(1).min(SCARCITY_MAX)
}

/// A part of a budget; dropping it gives it back.
#[derive(Debug)]
pub(crate) struct Reservation {
    permit: OwnedSemaphorePermit,
    sending: Arc<AtomicUsize>,
}

impl Reservation {
    /// How much it is.
    pub(crate) fn bytes(&self) -> usize {
        self.permit.num_permits() * PERMIT_BYTES
    }

    fn merge(&mut self, more: Option<Self>) {
        if let Some(more) = more {
            self.permit.merge(more.permit);
        }
    }

    /// The bytes of an answer, which hold what they need of this share until the last slice of them is dropped. That is
    /// when the connection has sent them or given up: hyper takes a body at once and drops it, but keeps its bytes.
    pub(crate) fn hold(mut self, mut bytes: Vec<u8>) -> Bytes {
        if bytes.len() <= SMALL_ANSWER_BYTES {
            return bytes.into();
        }
        // A page grows while it is written, up to twice what it needs.
        bytes.shrink_to_fit();
        let needed = permits_for(bytes.capacity()) as usize;
        let spare = self.permit.num_permits().saturating_sub(needed);
        drop(self.permit.split(spare));
        self.sending.fetch_add(self.permit.num_permits(), Ordering::Relaxed);
        Bytes::from_owner(Held { bytes, share: self })
    }
}

/// Bytes with their share.
struct Held {
    bytes: Vec<u8>,
    share: Reservation,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.share.sending.fetch_sub(self.share.permit.num_permits(), Ordering::Relaxed);
    }
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
#[path = "memory_budget_tests.rs"]
mod tests;
