//! The embedded backend: the suite that every backend passes, the agreement with the model, and what is peculiar to a file.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod agreement;
mod conformance;
mod durability;
mod empty_claims;
mod storage;
mod transfer;
