//! Tasks and runs are numbered here. An identifier is its letter, an underscore and the number, mixed with a random key of this
//! process: spread evenly over all identifiers, as those of real clients are, and never twice. So an identifier is written into a
//! ready request, and the number read back, without an allocation.

use std::cell::Cell;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::LazyLock;

/// Characters of an identifier behind its letter (`t_[A-Za-z0-9_-]{12}`), of 6 bits each.
pub(crate) const CHARACTERS: usize = 12;
/// What the reference calls its only task. It knows no key; its task has the number 0.
pub(crate) const REFERENCE_TASK: &[u8; CHARACTERS] = b"000000000000";

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
const BITS_OF_HALF: u32 = 36;
const HALF: u64 = (1 << BITS_OF_HALF) - 1;
/// Any odd number with many different bits.
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

/// Runs have a key of their own: the n-th run usually gets the n-th task, and their identifiers must not lie side by side.
static KEYS: LazyLock<[Permutation; 2]> = LazyLock::new(|| [Permutation::random(), Permutation::random()]);

/// Writes the identifier of a task into its twelve places.
pub(crate) fn write_task(places: &mut [u8], number: u64) {
    KEYS[0].write(places, number);
}

/// Writes the identifier of a run into its twelve places.
pub(crate) fn write_run(places: &mut [u8], number: u64) {
    KEYS[1].write(places, number);
}

/// The identifier of a task.
pub(crate) fn task_id(number: u64) -> String {
    KEYS[0].identifier('t', number)
}

/// The identifier of a run.
pub(crate) fn run_id(number: u64) -> String {
    KEYS[1].identifier('r', number)
}

/// The number of a task; none when it is not one of ours.
pub(crate) fn read_task(places: &[u8]) -> Option<u64> {
    if places == REFERENCE_TASK { Some(0) } else { KEYS[0].read(places) }
}

/// A permutation of 72 bits: a Feistel network, whose rounds are undone in reverse order.
#[derive(Debug)]
struct Permutation([u64; 4]);

impl Permutation {
    fn random() -> Self {
        // Each state is seeded by the operating system or differs from the one before.
        Self([(); 4].map(|()| RandomState::new().build_hasher().finish()))
    }

    /// Numbers have 36 bits.
    fn write(&self, places: &mut [u8], number: u64) {
        let (mut left, mut right) = (0, number & HALF);
        for key in self.0 {
            (left, right) = (right, left ^ mixed(right, key));
        }
        for place in places.iter_mut().rev() {
            *place = ALPHABET[(right & 63) as usize];
            right = right >> 6 | (left & 63) << (BITS_OF_HALF - 6);
            left >>= 6;
        }
    }

    fn identifier(&self, letter: char, number: u64) -> String {
        let mut places = [0; CHARACTERS];
        self.write(&mut places, number);
        format!("{letter}_{}", places.map(char::from).iter().collect::<String>())
    }

    fn read(&self, places: &[u8]) -> Option<u64> {
        let (mut left, mut right) = (0, 0);
        for place in places {
            left = (left << 6 | right >> (BITS_OF_HALF - 6)) & HALF;
            right = (right << 6 | value(*place)?) & HALF;
        }
        for key in self.0.into_iter().rev() {
            (left, right) = (right ^ mixed(left, key), left);
        }
        (left == 0).then_some(right)
    }
}

/// The upper half of a product, to which all bits contribute.
fn mixed(half: u64, key: u64) -> u64 {
    half.wrapping_add(key).wrapping_mul(MULTIPLIER) >> (64 - BITS_OF_HALF)
}

fn value(character: u8) -> Option<u64> {
    Some(u64::from(match character {
        b'A'..=b'Z' => character - b'A',
        b'a'..=b'z' => character - b'a' + 26,
        b'0'..=b'9' => character - b'0' + 52,
        b'-' => 62,
        b'_' => 63,
        _ => return None,
    }))
}

/// The next numbers of tasks and runs. They rise over the whole measurement, so that nothing is ever named twice.
#[derive(Debug, Default)]
pub(crate) struct Numbers {
    tasks: Cell<u64>,
    runs: Cell<u64>,
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
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(permutation: &Permutation, number: u64) -> [u8; CHARACTERS] {
        let mut places = [0; CHARACTERS];
        permutation.write(&mut places, number);
        places
    }

    #[test]
    fn numbers_read_back() {
        let permutation = Permutation::random();
        for number in (0..1000).chain([1_234_567, 999_999_999, HALF]) {
            assert_eq!(permutation.read(&id(&permutation, number)), Some(number));
        }
        let mut places = [0; CHARACTERS];
        write_task(&mut places, 42);
        assert_eq!(read_task(&places), Some(42));
        assert_eq!(read_task(b"00000000000x"), None);
        assert_eq!(read_task(b"00000000000 "), None);
        assert_eq!(read_task(REFERENCE_TASK), Some(0));
    }

    #[test]
    fn a_run_is_not_called_like_the_task_of_its_number() {
        let (mut task, mut run) = ([0; CHARACTERS], [0; CHARACTERS]);
        write_task(&mut task, 42);
        write_run(&mut run, 42);
        assert_ne!(task, run);
    }

    /// Whatever is sorted by identifier finds the next one anywhere: every part of the range is hit about as often as every other.
    #[test]
    fn consecutive_numbers_are_spread_evenly() {
        for permutation in [Permutation([0; 4]), Permutation([1, 2, 3, 4]), Permutation::random()] {
            for column in [0, 5, 6, 11] {
                let mut counts = [0_u32; 256];
                for number in 0..64_000 {
                    counts[usize::from(id(&permutation, number)[column])] += 1;
                }
                for character in ALPHABET {
                    let count = counts[usize::from(*character)];
                    // 1,000 are expected; six standard deviations.
                    assert!((800..=1200).contains(&count), "{permutation:?} {column} {character}: {count}");
                }
            }
        }
    }

    #[test]
    fn neighbours_in_time_are_not_neighbours_in_order() {
        let permutation = Permutation::random();
        let rises = (0..10_000).filter(|number| id(&permutation, *number) < id(&permutation, number + 1)).count();
        assert!((4_000..=6_000).contains(&rises), "{rises}");
    }
}
