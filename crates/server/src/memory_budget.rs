//! Bounds on the memory that all requests and answers hold together. A client that is slow with a large body or answer
//! then makes other clients wait, but does not use up the memory of the machine. `memory_plan.rs` decides how large the
//! budgets are; `connection/activity.rs` and `extract/body.rs` decide what happens to slow clients when room is scarce.

use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use taskqueue_core::limits::{
    CLAIM_WORKER_BYTES, NAME_CHARS, OUTPUT_ANSWER_BYTES, REQUEST_BODY_BYTES, STATS_ROUTES, TASK_DATA_BYTES,
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};
use tokio::time::timeout;

use crate::memory_plan::MemoryPlan;

/// An answer that is at most this large is not counted while it is sent: every connection may hold one.
pub(crate) const SMALL_ANSWER_BYTES: usize = 8 * 1024;
/// A body of a request that is at most this large is not counted, either.
pub(crate) const SMALL_BODY_BYTES: usize = 4 * 1024;
/// The bytes of the field names of a task, of a claim and of the end of a page, besides the texts of the task.
const FRAME_BYTES: usize = 4 * 1024;
/// The largest task in an answer: its stored data, the error of its last run, which came in a body, and who ran it.
pub(crate) const TASK_BYTES: usize = TASK_DATA_BYTES + REQUEST_BODY_BYTES + CLAIM_WORKER_BYTES + FRAME_BYTES;
/// The largest stats: each route as it is read, as it is told, and as text, with its numbers.
pub(crate) const STATS_BYTES: usize = STATS_ROUTES * 3 * (NAME_CHARS + 128);
/// The bytes that the parsed form of a body takes for each of its bytes: `[1],` is a value of 32 bytes and a list with room for 4.
const PARSED_FACTOR: usize = 48;

/// How long to wait for a reservation: as long as for a lock of the store (docs/reference/http-api.md §12).
const RESERVE_TIMEOUT: Duration = Duration::from_secs(5);
/// How long to wait for more of it. Requests that wait to grow hold what they have, perhaps the whole budget together, and
/// then only a refusal makes room.
const GROW_TIMEOUT: Duration = Duration::from_millis(250);

/// Permits are KiB, because a semaphore hands out at most 2^32 at a time.
const PERMIT_BYTES: usize = 1024;

/// The highest scarcity: clients then have to take answers 2^7 times as fast as usual, at 1.7 MB/s.
const SCARCITY_MAX: u32 = 7;

/// An error: a budget had no room for a reservation in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoRoom;

/// The budgets of a server.
pub struct Budgets {
    /// For answers, from before they are made until their last byte is sent.
    pub(crate) answers: Budget,
    /// The part of it that lists, output and pages for browsers may take while they are read: thousands may list at once, and one
    /// line may wake thousands that follow a run. Claims and creations are not to wait behind them.
    reads: Budget,
    /// The part of it that batches of claims may take until their answers are written: a claim of one task is not to wait behind them.
    claims: Budget,
    /// For bodies, from when they prove to be large until they are answered.
    pub(crate) bodies: Budget,
    /// For large heads. They arrive before the token is checked, and must not take the room of bodies.
    pub(crate) heads: Budget,
    /// For bodies while they are parsed.
    parsing: Budget,
    /// The size of the last list of queues: the only estimate for the next one.
    queue_list_bytes: AtomicUsize,
    /// One permit for each core, for work on large bodies and answers.
    turns: Arc<Semaphore>,
}

/// How much of a budget is reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BudgetUse {
    pub(crate) part: &'static str,
    pub(crate) total_bytes: usize,
    pub(crate) used_bytes: usize,
}

impl Budgets {
    /// Returns how much of each is reserved, for metrics.
    pub(crate) fn in_use(&self) -> [BudgetUse; 4] {
        let parts =
            [("answers", &self.answers), ("bodies", &self.bodies), ("heads", &self.heads), ("parsing", &self.parsing)];
        parts.map(|(part, budget)| {
            let total_bytes = budget.total_bytes();
            BudgetUse { part, total_bytes, used_bytes: total_bytes.saturating_sub(budget.free_bytes()) }
        })
    }

    pub fn new(plan: &MemoryPlan) -> Self {
        Self {
            answers: Budget::new(plan.answers_bytes),
            reads: Budget::new(plan.answers_bytes / 4 * 3),
            claims: Budget::new(plan.answers_bytes / 4 * 3),
            bodies: Budget::new(plan.requests_bytes / 8 * 7),
            heads: Budget::new(plan.requests_bytes / 8),
            parsing: Budget::new(plan.parsing_bytes),
            queue_list_bytes: AtomicUsize::new(0),
            turns: Arc::new(Semaphore::new(std::thread::available_parallelism().map_or(1, NonZero::get))),
        }
    }

    /// Waits for the turn of work on a large body or answer. What waits has its memory, so few wait, and each turn takes less
    /// than a second.
    pub(crate) async fn turn(&self) -> Option<OwnedSemaphorePermit> {
        // The semaphore is never closed.
        Arc::clone(&self.turns).acquire_owned().await.ok()
    }

    /// Reserves memory for an answer with one task, whatever its size.
    pub(crate) async fn reserve_task(&self) -> Result<Reservation, NoRoom> {
        self.answers.reserve(TASK_BYTES).await
    }

    /// Reserves memory for an answer with output, of which so many bytes are kept: the text, and the same as JSON.
    pub(crate) async fn reserve_output(&self, most_bytes: usize) -> Result<AnswerRoom, NoRoom> {
        self.reserve_read(most_bytes.min(OUTPUT_ANSWER_BYTES) + OUTPUT_ANSWER_BYTES + FRAME_BYTES).await
    }

    /// Reserves memory for a page of so many bytes, or less, but for one task at least.
    pub(crate) async fn reserve_page(&self, wanted_bytes: usize) -> Result<AnswerRoom, NoRoom> {
        self.reserve_between(&self.reads, TASK_BYTES, wanted_bytes).await
    }

    /// Reserves memory for the answer to a batch of claims, of so many bytes, or less, but of `least` at least.
    pub(crate) async fn reserve_claims(&self, least: usize, wanted_bytes: usize) -> Result<AnswerRoom, NoRoom> {
        self.reserve_between(&self.claims, least, wanted_bytes).await
    }

    /// Reserves memory for an answer to a read, of so many bytes.
    pub(crate) async fn reserve_read(&self, bytes: usize) -> Result<AnswerRoom, NoRoom> {
        self.reserve_in(&self.reads, bytes).await
    }

    /// Reserves at least so many bytes, and of the rest not more than half of what is free. So answers become smaller as room becomes
    /// scarce, and no request waits for a large reservation.
    async fn reserve_between(&self, part: &Budget, least: usize, wanted_bytes: usize) -> Result<AnswerRoom, NoRoom> {
        let mut room = self.reserve_in(part, least).await?;
        let free = part.free_bytes().min(self.answers.free_bytes());
        let more = wanted_bytes.saturating_sub(least).min(free / 2);
        if let (Some(part), Some(answer)) = (part.try_reserve(more), self.answers.try_reserve(more)) {
            room.part.add(part);
            room.answer.add(answer);
        }
        Ok(room)
    }

    /// Reserves so many bytes; at most three quarters of all, because who asks may have some of it already.
    async fn reserve_in(&self, part: &Budget, bytes: usize) -> Result<AnswerRoom, NoRoom> {
        let bytes = bytes.min(part.total_bytes() / 4 * 3);
        let both = async {
            let part = part.reserve(bytes).await?;
            Ok(AnswerRoom { part, answer: self.answers.reserve(bytes).await? })
        };
        timeout(RESERVE_TIMEOUT, both).await.unwrap_or_else(|_| Err(NoRoom))
    }

    /// Reserves memory for a list of all queues: as much as the last one took, or for a task if that is more.
    pub(crate) async fn reserve_queue_list(&self) -> Result<Reservation, NoRoom> {
        self.answers.reserve(self.queue_list_bytes.load(Ordering::Relaxed).max(TASK_BYTES)).await
    }

    /// Remembers how much a list of all queues takes, and enlarges its reservation if that was too small.
    pub(crate) async fn grow_queue_list(&self, reservation: &mut Reservation, bytes: usize) -> Result<(), NoRoom> {
        self.queue_list_bytes.store(bytes, Ordering::Relaxed);
        self.answers.grow(reservation, bytes).await
    }

    /// Reserves memory for parsing a body of so many bytes; small ones need none. Of a batch, one item at a time is parsed.
    pub(crate) async fn reserve_parsing(&self, body_bytes: usize) -> Result<Option<Reservation>, NoRoom> {
        match body_bytes {
            0..=SMALL_BODY_BYTES => Ok(None),
            _ => self.parsing.reserve(body_bytes.min(REQUEST_BODY_BYTES) * PARSED_FACTOR).await.map(Some),
        }
    }

    /// Reserves so many bytes that a request keeps while it waits, if at least half of what bodies may take is free.
    pub(crate) fn try_reserve_waiting(&self, bytes: usize) -> Option<Reservation> {
        if 2 * self.bodies.free_bytes() < self.bodies.total_bytes() { None } else { self.bodies.try_reserve(bytes) }
    }
}

impl Default for Budgets {
    fn default() -> Self {
        Self::new(&MemoryPlan::of_this_process())
    }
}

/// The memory that is reserved for the answer to a read, or to a batch of claims.
pub(crate) struct AnswerRoom {
    /// Of the part of its kind. Must be kept as long as the answer is being made.
    pub(crate) part: Reservation,
    /// For the answer itself, until it is sent.
    pub(crate) answer: Reservation,
}

/// A number of bytes of which parts can be reserved. Clones are of the same budget.
#[derive(Clone, Debug)]
pub(crate) struct Budget(Arc<BudgetParts>);

#[derive(Debug)]
struct BudgetParts {
    permits: Semaphore,
    total_permits: u32,
    /// The permits that are reserved for answers that are being sent.
    sending: AtomicUsize,
}

impl Budget {
    pub(crate) fn new(bytes: usize) -> Self {
        let total_permits = permits_for(bytes);
        let (permits, sending) = (Semaphore::new(total_permits as usize), AtomicUsize::new(0));
        Self(Arc::new(BudgetParts { permits, total_permits, sending }))
    }

    /// Waits until so many bytes are free; 503 when that takes too long.
    pub(crate) async fn reserve(&self, bytes: usize) -> Result<Reservation, NoRoom> {
        self.reserve_within(bytes, RESERVE_TIMEOUT).await
    }

    async fn reserve_within(&self, bytes: usize, limit: Duration) -> Result<Reservation, NoRoom> {
        // More than the whole budget would never be free.
        let permits = permits_for(bytes).min(self.0.total_permits);
        // There nearly always is room: then nothing needs a timer. The semaphore is never closed, so a failure is about time.
        let acquired = match self.0.permits.try_acquire_many(permits) {
            Ok(permit) => Ok(Ok(permit)),
            Err(_) => timeout(limit, self.0.permits.acquire_many(permits)).await,
        };
        acquired.ok().and_then(Result::ok).map(|permit| self.reservation(permit)).ok_or(NoRoom)
    }

    /// Reserves so many bytes if they are free now.
    pub(crate) fn try_reserve(&self, bytes: usize) -> Option<Reservation> {
        self.0.permits.try_acquire_many(permits_for(bytes)).ok().map(|permit| self.reservation(permit))
    }

    fn reservation(&self, permit: SemaphorePermit<'_>) -> Reservation {
        let permits = permit.num_permits();
        permit.forget();
        Reservation { budget: self.clone(), permits }
    }

    /// Enlarges a reservation to so many bytes, if it is smaller.
    pub(crate) async fn grow(&self, reservation: &mut Reservation, bytes: usize) -> Result<(), NoRoom> {
        let missing = bytes.min(self.total_bytes()).saturating_sub(reservation.bytes());
        if missing > 0 {
            reservation.add(self.reserve_within(missing, GROW_TIMEOUT).await?);
        }
        Ok(())
    }

    /// Makes it a reservation of so many bytes of a body; a small one needs none.
    pub(crate) async fn resize(&self, reservation: &mut Option<Reservation>, bytes: usize) -> Result<(), NoRoom> {
        match reservation {
            _ if bytes <= SMALL_BODY_BYTES => *reservation = None,
            Some(reservation) => {
                reservation.shrink(bytes);
                self.grow(reservation, bytes).await?;
            }
            None => *reservation = Some(self.reserve_within(bytes, GROW_TIMEOUT).await?),
        }
        Ok(())
    }

    fn total_bytes(&self) -> usize {
        self.0.total_permits as usize * PERMIT_BYTES
    }

    pub(crate) fn free_bytes(&self) -> usize {
        self.0.permits.available_permits() * PERMIT_BYTES
    }

    /// Returns how scarce room is: 0 as long as a quarter is free, then one more for each halving of what is free. For each degree,
    /// slow clients have to be twice as fast.
    pub(crate) fn scarcity(&self) -> u32 {
        scarcity(self.0.permits.available_permits(), self.0.total_permits as usize)
    }

    /// Returns how scarce room is for clients that take answers. What is reserved for answers that are still being made does not count.
    pub(crate) fn sending_scarcity(&self) -> u32 {
        let total = self.0.total_permits as usize;
        scarcity(total.saturating_sub(self.0.sending.load(Ordering::Relaxed)), total)
    }
}

fn permits_for(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(PERMIT_BYTES)).unwrap_or(u32::MAX)
}

fn scarcity(free: usize, total: usize) -> u32 {
    let parts = total.checked_div(free).unwrap_or(usize::MAX);
    parts.max(1).ilog2().saturating_sub(1).min(SCARCITY_MAX)
}

/// A reserved part of a budget; dropping it frees it.
#[derive(Debug)]
pub(crate) struct Reservation {
    budget: Budget,
    permits: usize,
}

impl Reservation {
    pub(crate) fn bytes(&self) -> usize {
        self.permits * PERMIT_BYTES
    }

    /// Adds another reservation of the same budget.
    fn add(&mut self, mut other: Self) {
        self.permits += std::mem::take(&mut other.permits);
    }

    /// Frees what is more than so many bytes.
    fn shrink(&mut self, bytes: usize) {
        let kept = self.permits.min(permits_for(bytes) as usize);
        self.budget.0.permits.add_permits(self.permits - kept);
        self.permits = kept;
    }

    /// Returns the bytes of an answer, which keep what they need of this reservation until the last slice of them is dropped. That is
    /// when the connection has sent them or is closed: hyper drops a body at once, but keeps its bytes.
    pub(crate) fn attach_to(mut self, mut bytes: Vec<u8>) -> Bytes {
        if bytes.len() <= SMALL_ANSWER_BYTES {
            return bytes.into();
        }
        // The buffer of a page grows while it is written, up to twice the size of the page.
        bytes.shrink_to_fit();
        self.shrink(bytes.capacity());
        self.budget.0.sending.fetch_add(self.permits, Ordering::Relaxed);
        Bytes::from_owner(ReservedBytes { bytes, reservation: self })
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.budget.0.permits.add_permits(self.permits);
    }
}

struct ReservedBytes {
    bytes: Vec<u8>,
    reservation: Reservation,
}

impl Drop for ReservedBytes {
    fn drop(&mut self) {
        self.reservation.budget.0.sending.fetch_sub(self.reservation.permits, Ordering::Relaxed);
    }
}

impl AsRef<[u8]> for ReservedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
#[path = "memory_budget_tests.rs"]
mod tests;
