//! What all backends share, without any of them, and the model in memory that they are compared with.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bulk_actions;
mod model;
mod pages;
mod portions;
