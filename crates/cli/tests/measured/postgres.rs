//! The attacks of `cost` and `memory_attacks`, the same files as in `sqlite`, on PostgreSQL.

#[path = "cost/mod.rs"]
mod cost;
#[path = "../integration/postgres/database.rs"]
#[allow(dead_code, reason = "that of `integration`; not all of it is needed here")]
mod database;
#[path = "memory_attacks/mod.rs"]
mod memory_attacks;
#[path = "../integration/support/mod.rs"]
#[allow(dead_code, unused_imports, reason = "the harness of `integration`; not all of it is needed here")]
mod support;

use memory_attacks::MIB;

/// What a server may use after all clients have disconnected: its connections to the database keep the buffers that their largest
/// rows needed.
const AFTERWARDS_BYTES: u64 = 128 * MIB;
