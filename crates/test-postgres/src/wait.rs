//! Waiting for what is to happen elsewhere, in a server or in a process, with an end to the patience.

use std::thread;
use std::time::{Duration, Instant};

/// Far more than a loaded machine needs to start a server, to recover it or to end it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Short against what is waited for (milliseconds to seconds), long against one look.
const BETWEEN_LOOKS: Duration = Duration::from_millis(5);

/// Looks until it is so. Panics when it is still not so after a minute.
#[track_caller]
pub fn eventually(what: &str, is_so: impl FnMut() -> bool) {
    assert!(within(PATIENCE, is_so), "waited {} seconds in vain: {what}", PATIENCE.as_secs());
}

/// Looks until it is so, or the time is over. Says whether it is so.
pub(crate) fn within(patience: Duration, mut is_so: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + patience;
    loop {
        if is_so() {
            return true;
        }
        if Instant::now() > deadline {
            return false;
        }
        thread::sleep(BETWEEN_LOOKS);
    }
}
