//! What costly requests may do to a server and to its other clients: the tests whose outcome depends on what else the machine does.
//! So they are a program apart from `integration`. What measures times waits until it is [`alone`]; what fills the memory of its own
//! server, and what compares times with those of an idle server, runs [`beside_others`] of its kind.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::duplicate_mod, reason = "what runs on both databases is a module of each")]

mod postgres;
mod shapes;
mod sqlite;

use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

static MACHINE: RwLock<()> = RwLock::new(());

/// Waits for the end of the tests that run: two of them would measure each other, and each wants the whole machine.
fn alone() -> RwLockWriteGuard<'static, ()> {
    MACHINE.write().unwrap_or_else(PoisonError::into_inner)
}

/// Waits for the end of a test that is alone.
fn beside_others() -> RwLockReadGuard<'static, ()> {
    MACHINE.read().unwrap_or_else(PoisonError::into_inner)
}
