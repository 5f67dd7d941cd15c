//! The client against a server that lies, stalls, redirects and hangs up. What the client and the real server do together
//! is tested in `crates/cli/tests/client`.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod nonsense;
mod outcomes;
mod repetition;
mod secrecy;
mod server;
mod versions;
