//! The scale-out backend on a real PostgreSQL: the suite that every backend passes, the agreement with the model, several servers
//! on one database, a pooler, and a database that goes away or whose rows others hold.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod agreement;
mod clock;
mod conformance;
mod faults;
mod held_rows;
mod loaded_bytes;
mod lost_commits;
mod output;
mod pooler;
mod proxy;
mod servers;
mod several_items;
mod storage;
mod transfer;
mod unsuccessful_tasks;
mod vacuum;
