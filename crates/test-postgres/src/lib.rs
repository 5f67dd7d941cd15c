//! A real PostgreSQL for tests: a private server that a test may stop and crash, or one that all tests of a process share,
//! with a database for each test; and a pooler in front of it. All functions block, also inside a runtime, and panic on
//! failure. The product must not depend on this crate.

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

pub use address::patient;
pub use cluster::Cluster;
pub use database::Database;
pub use pooler::{PoolMode, Pooler};
pub use process::is_alive;
pub use programs::program;
pub use wait::eventually;
