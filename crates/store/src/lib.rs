//! The seam to storage: the [`Store`] trait that the server uses, the commands it writes with, the steps
//! load-decide-save that every backend shares ([`execute`]), the clock, and the in-memory model.
//! No SQL and no driver lives here.

pub mod bulk;
pub mod claimable;
pub mod clock;
mod columns;
pub mod command;
#[cfg(feature = "conformance")]
pub mod conformance;
mod error;
pub mod execute;
pub mod long_reads;
pub mod migration;
pub mod model;
pub mod page;
mod store;
pub mod submission;
pub mod transaction;
pub mod transfer;
pub mod waiting;
pub mod writer_health;

pub use error::StoreError;
pub use store::Store;
