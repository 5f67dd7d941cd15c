//! Commands that a writer has put back because others hold what they need, and which transaction they are tried again in. A
//! command that finds no room beside what was received comes before what is received next, so none of them waits for ever.

use std::time::Instant;

use taskqueue_store::weight::MAX_ITEMS;

use super::Write;

/// The commands, each with the time when it is tried again. Those that are put back again go behind the others.
#[derive(Default)]
pub(super) struct Postponed {
    writes: Vec<(Instant, Write)>,
    /// Whether the last transaction had no room for one that was due.
    passed_over: bool,
    /// What full transactions have left. Every second transaction is theirs.
    left: Vec<Write>,
    left_had_turn: bool,
}

/// What a writer does next.
pub(super) struct Turn {
    /// The commands of the next transaction.
    pub(super) batch: Vec<Write>,
    /// Whether no more can be received.
    pub(super) is_closed: bool,
    /// Whether nothing was received in time.
    pub(super) is_idle: bool,
}

impl Postponed {
    pub(super) fn add(&mut self, due: Instant, write: Write) {
        self.writes.push((due, write));
    }

    /// What a transaction was too full for is tried next, behind what was left before.
    pub(super) fn leave(&mut self, mut writes: Vec<Write>) {
        writes.iter_mut().for_each(Write::leave);
        self.left.extend(writes);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.writes.is_empty() && self.left.is_empty()
    }

    /// The next turn. `receive` waits for commands until the first of these is due; it gives none when no more can come, and
    /// nothing when the time was over first.
    pub(super) fn next_turn(&mut self, receive: impl FnOnce(Option<Instant>) -> Option<Vec<Write>>) -> Turn {
        self.left_had_turn = !self.left.is_empty() && !self.left_had_turn;
        if self.left_had_turn {
            return Turn { batch: std::mem::take(&mut self.left), is_closed: false, is_idle: false };
        }
        if self.passed_over {
            let batch = self.take_due(0);
            if !batch.is_empty() {
                // What is received next has its turn then, even if some of these are left.
                self.passed_over = false;
                return Turn { batch, is_closed: false, is_idle: false };
            }
        }
        let due = self.writes.iter().map(|(due, _)| *due).min();
        let received = receive(if self.left.is_empty() { due } else { Some(Instant::now()) });
        let (is_closed, is_idle) = (received.as_ref().is_some_and(Vec::is_empty), received.is_none());
        let mut batch = received.unwrap_or_default();
        batch.extend(self.take_due(batch.iter().map(|write| write.items).sum()));
        Turn { batch, is_closed, is_idle }
    }

    /// Those that are due, as far as there is room for their items beside others.
    fn take_due(&mut self, mut items: usize) -> Vec<Write> {
        let (now, mut passed_over) = (Instant::now(), false);
        let due = self.writes.extract_if(.., |(due, write)| {
            let (is_due, fits) = (*due <= now, items == 0 || items + write.items <= MAX_ITEMS);
            passed_over |= is_due && !fits;
            items += if is_due && fits { write.items } else { 0 };
            is_due && fits
        });
        let due = due.map(|(_, write)| write).collect();
        self.passed_over = passed_over;
        due
    }
}

#[cfg(test)]
mod tests {
    use taskqueue_store::command::Command;
    use taskqueue_store::conformance::commands::*;
    use taskqueue_store::submission::Submission;

    use super::*;

    fn queued<C: Command>(command: C) -> Write {
        Write::new(C::into_request(Submission::new(command).0))
    }

    /// The items of the commands of each of the next transactions, while such a group is received whenever it is asked for.
    fn turns(postponed: &mut Postponed, turns: usize, group: usize) -> Vec<Vec<usize>> {
        let received = || vec![queued(heartbeat("q", 1, 1)), queued(create_all(0..group))];
        let turn = |_| postponed.next_turn(|_| Some(received())).batch.iter().map(|write| write.items).collect();
        (0..turns).map(turn).collect()
    }

    #[test]
    fn a_command_of_1000_items_that_was_put_back_is_tried_again_while_other_groups_keep_coming() {
        let mut postponed = Postponed::default();
        postponed.add(Instant::now(), queued(claim_all(0..1_000)));
        assert_eq!(turns(&mut postponed, 3, 700), [vec![1, 700], vec![1_000], vec![1, 700]]);
        assert!(postponed.is_empty());
    }

    #[test]
    fn what_is_received_gets_every_second_transaction_however_much_was_put_back() {
        let mut postponed = Postponed::default();
        (0..2).for_each(|_| postponed.add(Instant::now(), queued(claim_all(0..1_000))));
        postponed.add(Instant::now(), queued(claim_all(0..10)));
        let expected = [vec![1, 700, 10], vec![1_000], vec![1, 700], vec![1_000], vec![1, 700]];
        assert_eq!(turns(&mut postponed, 5, 700), expected);
    }

    #[test]
    fn a_command_that_is_not_due_is_not_tried() {
        let mut postponed = Postponed::default();
        let later = Instant::now() + std::time::Duration::from_secs(3_600);
        postponed.add(later, queued(claim_all([1])));
        let turn = postponed.next_turn(|until| {
            assert_eq!(until, Some(later), "it is waited for");
            None
        });
        assert!(turn.batch.is_empty() && turn.is_idle && !turn.is_closed && !postponed.is_empty());
    }
}
