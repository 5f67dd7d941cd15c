//! Waiting for a condition in a server or in a process, with a timeout.

use std::thread;
use std::time::{Duration, Instant};

/// Far more than a loaded machine needs to start, recover or stop a server.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);

/// Between two checks.
const CHECK_INTERVAL: Duration = Duration::from_millis(5);

/// Waits for a condition. Panics if it does not hold within a minute.
#[track_caller]
pub fn eventually(what: &str, condition: impl FnMut() -> bool) {
    assert!(within(TIMEOUT, condition), "not within {} seconds: {what}", TIMEOUT.as_secs());
}

/// Waits for a condition; returns whether it holds within the time.
pub(crate) fn within(limit: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + limit;
    loop {
        if condition() {
            return true;
        }
        if Instant::now() > deadline {
            return false;
        }
        thread::sleep(CHECK_INTERVAL);
    }
}
