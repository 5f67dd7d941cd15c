//! Tasks and runs are numbered here; an identifier is its letter, an underscore and the number in twelve digits.
//! So an identifier is written into a ready request, and read back, without an allocation.

use std::cell::Cell;

/// Digits of an identifier (`t_[A-Za-z0-9_-]{12}`).
pub(crate) const DIGITS: usize = 12;

/// Writes a number into its twelve places.
pub(crate) fn write(places: &mut [u8], number: u64) {
    let mut rest = number;
    for place in places.iter_mut().rev() {
        *place = b'0' + u8::try_from(rest % 10).unwrap_or(0);
        rest /= 10;
    }
}

/// Reads a number back; none when it is not one of ours.
pub(crate) fn read(places: &[u8]) -> Option<u64> {
    places.iter().try_fold(0_u64, |sum, byte| byte.is_ascii_digit().then(|| sum * 10 + u64::from(byte - b'0')))
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

    #[test]
    fn numbers_read_back() {
        for number in [0, 7, 1_234_567, 999_999_999_999] {
            let mut places = [0; DIGITS];
            write(&mut places, number);
            assert_eq!(read(&places), Some(number));
        }
        assert_eq!(read(b"00000000000x"), None);
    }
}
