//! A server that may use 256 MiB, and what clients can do to fill it (docs/memory.md), on both databases. An attack lasts some
//! seconds; `ATTACK_SECONDS=60` makes it a minute.
#![allow(clippy::print_stdout, reason = "figures for those who ask for them with --nocapture")]

mod attacks;
mod healthy;
mod withstand;

use super::{AFTERWARDS_BYTES, support};

pub(super) const MIB: u64 = 1_048_576;
/// How long an attack lasts, unless the environment says otherwise. What fills a server does so at once.
const ATTACK_SECONDS: u64 = 2;
