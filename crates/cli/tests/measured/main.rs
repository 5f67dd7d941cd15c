//! What costly requests may do to a server and to its other clients: the tests whose outcome depends on what else the machine does.
//! So they are a program apart from `integration`, and each of them waits until it is [`alone`].
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::duplicate_mod, reason = "what runs on both databases is a module of each")]

mod postgres;
mod shapes;
mod sqlite;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Waits for the end of the test that runs: two of them would measure each other, and each wants the whole machine.
fn alone() -> MutexGuard<'static, ()> {
    static ONE_BY_ONE: Mutex<()> = Mutex::new(());
    ONE_BY_ONE.lock().unwrap_or_else(PoisonError::into_inner)
}
