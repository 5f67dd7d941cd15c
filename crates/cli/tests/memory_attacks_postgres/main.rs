//! The attacks of `memory_attacks`, the same files, on PostgreSQL.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::print_stdout, reason = "figures for those who ask for them with --nocapture")]

#[path = "../memory_attacks/attacks.rs"]
mod attacks;
#[path = "../integration/postgres/database.rs"]
#[allow(dead_code, reason = "shared with the tests of the contract, which use all of it")]
mod database;
#[path = "../memory_attacks/healthy.rs"]
mod healthy;
#[allow(dead_code, unused_imports, reason = "shared with the tests of the contract, which use all of it")]
#[path = "../integration/support/mod.rs"]
mod support;
#[path = "../memory_attacks/withstand.rs"]
mod withstand;

/// How long an attack lasts, unless the environment says otherwise. What fills a server does so at once.
const ATTACK_SECONDS: u64 = 2;
/// What a server may use after all clients have disconnected: its connections to the database keep the buffers that their largest
/// rows needed.
const AFTERWARDS_BYTES: u64 = 128 * withstand::MIB;
