//! The worker's side of the protocol, against a scripted server that stalls, gives wrong answers, or disconnects.
//! The real server and real commands are in the tests of the binary.

#![allow(clippy::unwrap_used, reason = "in a test a failure is a panic")]

mod batch_server;
mod batching;
mod claiming;
mod ending;
mod idling;
mod leases;
mod measuring;
mod observing;
mod prelude;
mod printing;
mod progressing;
mod reporting;
mod server;
mod test_worker;
mod time_limits;
