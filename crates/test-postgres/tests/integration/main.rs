//! The servers, databases and poolers that tests are given: each to itself, stopped and crashed at will, and gone with its test.
#![allow(clippy::unwrap_used, reason = "in a test a failure is a panic")]

mod cluster;
mod death;
mod pooler;
