//! A real PostgreSQL for tests, never a mock: a server of one's own to stop and to crash, or one that all tests of a
//! process share, with a database for each; and a pooler in front of it. Everything here is a plain blocking function,
//! also inside a runtime, and fails by panicking. Nothing of the product may depend on this crate.

mod account;
mod address;
mod cluster;
mod control;
mod database;
mod directory;
mod pooler;
mod port;
mod process;
mod programs;
mod server;
mod wait;

pub use cluster::Cluster;
pub use database::Database;
pub use pooler::{PoolMode, Pooler};
pub use process::is_alive;
pub use programs::program;
pub use wait::eventually;
