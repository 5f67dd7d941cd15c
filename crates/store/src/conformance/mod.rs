//! The conformance suite: every promise of [`Store`](crate::Store) as a named test, the same for every backend, and the
//! generators of the agreement tests. Compiled only for tests (feature `conformance`); no product contains it.
//!
//! A backend says where its stores live ([`Storage`]) and expands `conformance_suite!`; one
//! whose storage outlives a store also expands [`durability_suite!`](crate::durability_suite), and `conformance_module!` for what
//! only some backends promise.
#![allow(clippy::unwrap_used, clippy::missing_panics_doc, reason = "a test fails by panicking")]

use std::sync::Arc;

pub use self::manual_clock::ManualClock;
use crate::Store;

pub mod actions;
pub mod activity;
pub mod agreement;
pub mod any_command;
pub mod archive;
pub mod bulk;
pub mod bulk_actions;
pub mod bulk_portions;
pub mod claims;
pub mod commands;
pub mod concurrency;
pub mod counts;
pub mod creation;
pub mod delays;
pub mod dependencies;
pub mod dependency_cycles;
pub mod durability;
pub mod filters;
pub mod fixture;
pub mod generate;
pub mod held_heartbeats;
pub mod installation;
pub mod items;
pub mod kept_secret;
pub mod last_run;
pub mod leases;
pub mod lists;
pub mod long_reads;
mod manual_clock;
pub mod model;
pub mod moved;
pub mod observations;
pub mod output;
pub mod output_bytes;
pub mod page_reader;
pub mod prelude;
pub mod progress;
pub mod queued;
pub mod queues;
pub mod random;
pub mod related;
mod run_ends;
pub mod runs;
pub mod saved_activity;
pub mod settings;
pub mod stats;
pub mod telemetry;
pub mod updates;
pub mod waiting;
pub mod waiting_output;

/// A place where a store can be opened. Each test gets a fresh one; it is dropped when the test ends.
pub trait Storage {
    /// Opens the storage. Called again only after the store before has been closed and dropped.
    fn open(&self, clock: ManualClock) -> impl Future<Output = Arc<dyn Store>>;

    /// Whether activity is still there when it is opened again. It is not when that moves everything to another storage.
    fn keeps_activity(&self) -> bool {
        true
    }
}

/// So few tasks that a bulk action in these tests looks for more several times.
pub const FOUND_AT_ONCE: usize = 100;

/// Expands to one test for each name in each module of the suite. A test gets a store with the queue `q`, or with `on storage` the
/// storage itself.
#[doc(hidden)]
#[macro_export]
macro_rules! conformance_tests {
    ($fresh:ident; $($module:ident { $($name:ident)* })*) => {
        $(
            mod $module {
                $(
                    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                    async fn $name() {
                        let storage = super::$fresh();
                        let fixture = $crate::conformance::fixture::Fixture::with_queue(&storage).await;
                        $crate::conformance::$module::$name(fixture).await;
                    }
                )*
            }
        )*
    };
    ($fresh:ident on storage; $($module:ident { $($name:ident)* })*) => {
        $(
            mod $module {
                $(
                    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                    async fn $name() {
                        $crate::conformance::$module::$name(&super::$fresh()).await;
                    }
                )*
            }
        )*
    };
}

// `conformance_suite!(fresh)`, where `fn fresh() -> impl Storage`: the tests that every backend passes. And `conformance_module!(fresh
// queues)`: those of one file. Both are written by `build.rs`.
include!(concat!(env!("OUT_DIR"), "/conformance_tests.rs"));

/// The tests of storage that outlives a store: `durability_suite!(fresh)`, where `fn fresh() -> impl Storage`.
#[macro_export]
macro_rules! durability_suite {
    ($fresh:ident) => {
        $crate::conformance_module!($fresh durability);
    };
}
