//! The interface to storage: the [`Store`] trait that the server uses, the commands it writes with, what every backend
//! shares ([`execute`]: load, decide, save; [`batch`]; [`write_queue`]), and the clock. The in-memory model is a part of the conformance suite.
//! No SQL and no driver lives here.

pub mod activity;
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
pub mod write_queue;
pub mod write_request;
pub mod writers;

// The words that backends and servers use most.
pub use clock::Clock;
pub use command::{ActOnTasks, Acted, BulkUpdate, Output, Updated};
pub use store::{InstallationSecret, Store, StoreError, StoreExt, StoreFuture, StoreParts, StoreResult};
pub use transaction::{Loaded, Queue, QueueKey, RunUse, TaskKey, Transaction};
pub use write_request::WriteRequest;
