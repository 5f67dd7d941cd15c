//! Tasks and runs are numbered here. An identifier is its letter, an underscore and the number, mixed with a key: spread evenly over
//! all identifiers, as those of real clients are, and never twice. So an identifier is written into a ready request, and the number read
//! back, without an allocation.

use std::cell::{Cell, RefCell};

/// Characters of an identifier behind its letter (`t_[A-Za-z0-9_-]{12}`), of 6 bits each.
pub(crate) const CHARACTERS: usize = 12;
/// The identifier of the only task of the reference. It knows no key; its task has the number 0.
pub(crate) const REFERENCE_TASK: &[u8; CHARACTERS] = b"000000000000";

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
const BITS: u32 = 72;
const ALL: u128 = (1 << BITS) - 1;

/// Runs have a key of their own: the n-th run usually gets the n-th task, and their identifiers must not lie side by side.
pub(crate) const TASKS: Identifiers = Identifiers::new('t', [0xB5_9E37_79B9_7F4A_7C15, 0x5D_BF58_476D_1CE4_E5B9]);
pub(crate) const RUNS: Identifiers = Identifiers::new('r', [0x2F_94D0_49BB_1331_11EB, 0xA3_D1B5_4A32_D192_ED03]);

/// A permutation of 72 bits: products with two odd numbers, and the upper half mixed into the lower one between them. Each step is
/// undone by itself or by the inverse of its factor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Identifiers {
    letter: char,
    factors: [u128; 2],
    inverses: [u128; 2],
}

impl Identifiers {
    const fn new(letter: char, factors: [u128; 2]) -> Self {
        Self { letter, factors, inverses: [inverse(factors[1]), inverse(factors[0])] }
    }

    /// Writes the identifier of a number into its twelve places.
    pub(crate) fn write(&self, places: &mut [u8], number: u64) {
        let mut mixed = mix(u128::from(number), self.factors);
        for place in places.iter_mut().rev() {
            *place = ALPHABET[(mixed & 63) as usize];
            mixed >>= 6;
        }
    }

    /// The identifier of a number.
    pub(crate) fn id(&self, number: u64) -> String {
        let mut places = [0; CHARACTERS];
        self.write(&mut places, number);
        format!("{}_{}", self.letter, places.map(char::from).iter().collect::<String>())
    }

    /// The number of an identifier; none when it is not one of ours.
    pub(crate) fn read(&self, places: &[u8]) -> Option<u64> {
        if places == REFERENCE_TASK {
            return Some(0);
        }
        let value = |place: &u8| ALPHABET.iter().position(|character| character == place);
        let mixed = places.iter().try_fold(0, |mixed, place| Some(mixed << 6 | value(place)? as u128))?;
        let number = mix(mixed, self.inverses);
        // Ours are small; those of others are not.
        (number < 1 << (BITS / 2)).then_some(number as u64)
    }
}

fn mix(number: u128, [first, second]: [u128; 2]) -> u128 {
    let product = number.wrapping_mul(first) & ALL;
    (product ^ product >> (BITS / 2)).wrapping_mul(second) & ALL
}

/// The number whose product with an odd one is 1; each step doubles the bits that are right.
const fn inverse(odd: u128) -> u128 {
    let (mut inverse, mut bits) = (odd, 3);
    while bits < BITS {
        inverse = inverse.wrapping_mul(2_u128.wrapping_sub(odd.wrapping_mul(inverse)));
        bits *= 2;
    }
    inverse & ALL
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Claimed {
    Free,
    Held,
    Completed,
}

/// The next numbers of tasks and runs of one server. They rise over the whole measurement, so that nothing is ever named twice. Also
/// which tasks are held, by the answers of the server: finds every task that is handed out twice.
#[derive(Debug, Default)]
pub(crate) struct Numbers {
    tasks: Cell<u64>,
    runs: Cell<u64>,
    claimed: RefCell<Vec<Claimed>>,
    double_claims: Cell<u64>,
}

impl Numbers {
    pub(crate) fn next_task(&self) -> u64 {
        self.tasks.replace(self.tasks.get() + 1)
    }

    pub(crate) fn next_run(&self) -> u64 {
        self.runs.replace(self.runs.get() + 1)
    }

    /// The number that the next new task will have.
    pub(crate) fn tasks_so_far(&self) -> u64 {
        self.tasks.get()
    }

    /// Notes that a claim was answered with this task.
    pub(crate) fn handed_out(&self, task: u64) {
        let is_double = self.set(task, Claimed::Held) != Claimed::Free;
        self.double_claims.set(self.double_claims.get() + u64::from(is_double));
    }

    /// Notes that the end of a run is about to be sent. From then on the server may hand the task out again, unless it is complete.
    pub(crate) fn ends(&self, task: u64, completes: bool) {
        self.set(task, if completes { Claimed::Completed } else { Claimed::Free });
    }

    /// Counts the tasks that were handed out while they were held or after they were complete.
    pub(crate) fn double_claims(&self) -> u64 {
        self.double_claims.get()
    }

    fn set(&self, task: u64, state: Claimed) -> Claimed {
        let (mut claimed, at) = (self.claimed.borrow_mut(), task as usize);
        if claimed.len() <= at {
            claimed.resize(at + 1, Claimed::Free);
        }
        std::mem::replace(&mut claimed[at], state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(ids: &Identifiers, number: u64) -> [u8; CHARACTERS] {
        let mut places = [0; CHARACTERS];
        ids.write(&mut places, number);
        places
    }

    #[test]
    fn numbers_read_back() {
        for ids in [TASKS, RUNS] {
            for number in (0..1000).chain([1_234_567, 999_999_999, (1 << 36) - 1]) {
                assert_eq!(ids.read(&id(&ids, number)), Some(number));
            }
        }
        assert_eq!(TASKS.id(42).as_bytes()[2..], id(&TASKS, 42));
        assert_eq!(TASKS.read(b"00000000000x"), None);
        assert_eq!(TASKS.read(b"00000000000 "), None);
        assert_eq!(TASKS.read(REFERENCE_TASK), Some(0));
    }

    #[test]
    fn a_held_or_complete_task_must_not_be_handed_out() {
        let numbers = Numbers::default();
        for (completes, double_claims) in [(false, 0), (true, 0), (true, 1)] {
            numbers.handed_out(100);
            assert_eq!(numbers.double_claims(), double_claims);
            numbers.ends(100, completes);
        }
        numbers.handed_out(7);
        numbers.handed_out(7);
        assert_eq!(numbers.double_claims(), 2);
    }

    #[test]
    fn a_run_is_not_called_like_the_task_of_its_number() {
        assert_ne!(id(&TASKS, 42), id(&RUNS, 42));
    }

    /// Whatever is sorted by identifier finds the next one anywhere: every part of the range is hit about as often as every other.
    #[test]
    fn consecutive_numbers_are_spread_evenly() {
        for ids in [TASKS, RUNS] {
            for column in [0, 5, 6, 11] {
                let mut counts = [0_u32; 256];
                for number in 0..64_000 {
                    counts[usize::from(id(&ids, number)[column])] += 1;
                }
                for character in ALPHABET {
                    let count = counts[usize::from(*character)];
                    // 1,000 are expected; six standard deviations.
                    assert!((800..=1200).contains(&count), "{ids:?} {column} {character}: {count}");
                }
            }
        }
    }

    #[test]
    fn neighbours_in_time_are_not_neighbours_in_order() {
        let rises = (0..10_000).filter(|number| id(&TASKS, *number) < id(&TASKS, number + 1)).count();
        assert!((4_000..=6_000).contains(&rises), "{rises}");
    }
}
