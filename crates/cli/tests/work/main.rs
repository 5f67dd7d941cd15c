//! `taskqueue loop` from outside: the real server, the real worker, real children. What a worker says to a server that
//! misbehaves in detail is tested in the crate `worker`, with a scripted one.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod daemons;
mod disks;
mod environment;
mod impostors;
mod many;
mod outages;
mod outcomes;
mod output;
mod processes;
mod refusals;
mod revocation;
mod run_dirs;
mod server;
mod signals;
mod support;
mod templates;
#[path = "../live/terminal.rs"]
#[allow(dead_code, reason = "the terminal of the live views, of which this needs a part")]
mod terminal;
mod terminals;
