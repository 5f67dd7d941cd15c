//! The interface to storage: the [`Store`] trait that the server uses, the commands it writes with, what every backend
//! shares ([`execute`]: load, decide, save; [`batch`]; [`write_queue`]), and the clock. The in-memory model is a part of the conformance suite.
//! No SQL and no driver lives here.

pub mod activity;
pub mod after_commit;
pub mod batch;
pub mod bulk;
pub mod bulk_action;
pub mod check;
pub mod claimable;
pub mod clock;
pub mod command;
#[cfg(feature = "conformance")]
pub mod conformance;
pub mod dependency_cycle;
pub mod execute;
pub mod figures;
pub mod histogram;
pub mod long_reads;
pub mod migration;
pub mod output;
pub mod page;
pub mod portions;
pub mod reading;
pub mod related;
mod store;
pub mod submission;
pub mod transaction;
pub mod transfer;
pub mod waiting;
pub mod weight;
pub mod write_backlog;
pub mod write_queue;
pub mod write_request;
pub mod writer_figures;
pub mod writer_health;
pub mod writer_threads;

pub use store::{InstallationSecret, Store, StoreError, StoreExt, StoreFuture, StoreParts, StoreResult};
