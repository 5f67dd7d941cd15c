//! A server that may use 256 MiB, and what clients can do to fill it (docs/memory.md). Here on SQLite; `memory_attacks_postgres`
//! runs the same attacks on PostgreSQL. An attack lasts some seconds; `ATTACK_SECONDS=60` makes it a minute.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::print_stdout, reason = "figures for those who ask for them with --nocapture")]

mod attacks;
#[path = "../integration/sqlite/database.rs"]
#[allow(dead_code, reason = "shared with the tests of the contract, which use all of it")]
mod database;
mod healthy;
#[allow(dead_code, unused_imports, reason = "shared with the tests of the contract, which use all of it")]
#[path = "../integration/support/mod.rs"]
mod support;
mod withstand;

/// How long an attack lasts, unless the environment says otherwise.
const ATTACK_SECONDS: u64 = 6;
/// What a server may use after all clients have disconnected.
const AFTERWARDS_BYTES: u64 = 64 * withstand::MIB;
