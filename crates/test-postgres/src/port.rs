//! Free ports on the loopback address.

use std::net::{Ipv4Addr, TcpListener};
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};

/// Below the ports of outgoing connections: one of those could take the port of a stopped server.
const FIRST: u32 = 20_000;
const PORTS: u32 = 12_000;

/// A port without a listener. Another process may take it first, so the caller must be ready to try again.
pub(crate) fn free_port() -> u16 {
    static TAKEN: AtomicU32 = AtomicU32::new(0);
    // Concurrent processes begin at different ports.
    let begin = process::id().wrapping_mul(131);
    let next = |_| (FIRST + begin.wrapping_add(TAKEN.fetch_add(1, Ordering::Relaxed)) % PORTS) as u16;
    let is_free = |port: &u16| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok();
    (0..PORTS).map(next).find(is_free).expect("some port is free")
}
