//! Where the board hangs while the writer does not work on it, so that a claim that finds nothing is answered by whoever
//! received it: handing it to the writer and back costs several times as much as the look. Nothing is changed here.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use taskqueue_core::lease;
use taskqueue_store::clock::Clock;
use taskqueue_store::command::Command;

use crate::board::Board;

/// The wall.
///
/// The writer takes the board down before it begins a transaction, and hangs it up again when all is committed or, after
/// a failure, read anew. So whoever sees it here sees all that is committed and nothing else, and "no task" is true at
/// that moment. Two more things follow from the order of taking down, hanging up and looking, which the lock decides:
///
/// - **Whoever was told of a task finds it.** The board is down when the answer to a creation is released, and every one
///   that hangs here later knows of the task. A look that follows that answer sees such a board, or none and goes to the
///   writer.
/// - **No wake-up is lost.** A waiter registers, then looks; the writer takes the board down, then counts the waiters.
///   If the look saw the board of before a batch, then look and registration came before the taking down: the writer
///   counts this waiter, and tells it what the batch made claimable. It does so with the board down, so that the look
///   to which this leads sees a later board, or none. A waiter whom the writer did not count has registered when the
///   board was down, and its first look too sees a later one, or none.
///
/// Whether the path still leads to our file is not asked for each look: that asks the file system, which may hang, and no
/// async thread must. The writer asks at each batch, the lease scan of every second included, and hangs nothing up if
/// it does not.
pub(crate) struct Wall {
    /// Nothing while the writer works, and while the storage is out of order. The lock is held for a look or a move
    /// only, never for a transaction.
    board: RwLock<Option<Board>>,
    clock: Arc<dyn Clock>,
    sleeps_credited: AtomicU64,
    credit_seconds: i64,
}

impl Wall {
    /// A wall with a board on it that is what the file holds.
    pub(crate) fn new(board: Board, clock: Arc<dyn Clock>, credit_seconds: i64) -> Self {
        let sleeps_credited = AtomicU64::new(clock.times_found_ahead());
        Self { board: RwLock::new(Some(board)), clock, sleeps_credited, credit_seconds }
    }

    /// Gives the board to the writer, if it hangs here.
    pub(crate) fn take_down(&self) -> Option<Board> {
        self.board.write().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Shows a board that is what the file holds.
    pub(crate) fn hang_up(&self, board: Board) {
        *self.board.write().unwrap_or_else(PoisonError::into_inner) = Some(board);
    }

    /// Whether a command is a claim that is seen to find nothing. Everything else, and whatever is in doubt, is the
    /// writer's business.
    pub(crate) fn shows_nothing_for(&self, command: &Command) -> bool {
        if !matches!(command, Command::Claim { .. }) {
            return false;
        }
        // An async thread must not wait, so a board that is being moved is none.
        let Ok(board) = self.board.try_read() else { return false };
        board.as_ref().is_some_and(|board| self.all_find_nothing(board, [command]))
    }

    /// Whether all of these are claims that find nothing, so that they need no transaction. Not after an outage: whatever
    /// is heard first grants the credit.
    pub(crate) fn all_find_nothing<'a>(&self, board: &Board, commands: impl IntoIterator<Item = &'a Command>) -> bool {
        commands.into_iter().all(|command| board.has_nothing_for(command)) && !self.was_out(board)
    }

    /// Whether leases are to be made good before anything else.
    fn was_out(&self, board: &Board) -> bool {
        let out = |last| lease::was_out(last, self.clock.now());
        let slept = self.sleeps_credited() != self.clock.times_found_ahead();
        self.credit_seconds > 0 && board.last_scan_at.is_some_and(|last| slept || out(last))
    }

    /// How often the machine's clock had been found ahead when that was last made an outage of.
    pub(crate) fn sleeps_credited(&self) -> u64 {
        self.sleeps_credited.load(Ordering::Relaxed)
    }

    /// From now on the board tells of all that was found until then.
    pub(crate) fn credit_sleeps(&self, times_found_ahead: u64) {
        self.sleeps_credited.store(times_found_ahead, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use taskqueue_core::time::Timestamp;
    use taskqueue_store::clock::ManualClock;
    use taskqueue_store::conformance::commands::{claim, queue};
    use taskqueue_store::transaction::QueueKey;

    use super::*;

    #[test]
    fn a_poisoned_lock_sends_claims_to_the_writer_and_does_not_stop_it() {
        let clock = Arc::new(ManualClock::new(Timestamp::from_micros(0)));
        let mut board = Board::default();
        board.add_queue(queue("q"), QueueKey(1));
        let wall = Wall::new(board, clock, 90);
        let empty_claim = claim("q", "default", 1);
        assert!(wall.shows_nothing_for(&empty_claim));
        let poisoned = std::thread::scope(|scope| {
            let panicking = scope.spawn(|| {
                let _board = wall.board.write();
                panic!("with the board in both hands");
            });
            panicking.join()
        });
        assert!(poisoned.is_err() && wall.board.is_poisoned());
        assert!(!wall.shows_nothing_for(&empty_claim));
        let board = wall.take_down().unwrap();
        wall.hang_up(board);
        assert!(wall.take_down().is_some());
    }
}
