//! Live views from outside: the real binary in a real terminal against a real server. The screens in detail are tested
//! next to the code that draws them.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../contract/database.rs"]
#[allow(dead_code, reason = "part of that harness")]
mod database;
mod logs;
mod questions;
mod serving;
#[path = "../contract/support/mod.rs"]
#[allow(dead_code, unused_imports, reason = "the harness of the contract tests, of which this needs a part")]
mod support;
mod terminal;
mod top;
mod waiting;
mod watch;
