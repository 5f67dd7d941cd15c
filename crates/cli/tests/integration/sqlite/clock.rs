//! The clock of the machine under a server with an SQLite file: it jumps, comes back and is set back
//! (docs/decisions/0005). On PostgreSQL the time is the database's (`scale_out/clocks.rs`).

use std::fs;
use std::path::PathBuf;

use serde_json::json;

use super::support::*;

const MINUTE: i64 = 60_000_000;

/// The library that shifts a program's clock, of Debian's package `faketime`.
pub(crate) fn library() -> PathBuf {
    let folders = fs::read_dir("/usr/lib").unwrap().map(|entry| entry.unwrap().path());
    let mut libraries = folders.map(|folder| folder.join("faketime/libfaketime.so.1"));
    libraries.find(|library| library.is_file()).expect("run scripts/install-test-needs: no libfaketime.so.1")
}

#[test]
fn a_clock_that_jumps_and_comes_back_moves_neither_timestamps_nor_leases() {
    let (folder, library) = (tempfile::tempdir().unwrap(), library());
    let shift = folder.path().join("shift");
    // Replaced as a whole: the library reads it with every look at the clock.
    let set = |to: &str| put_in_place(&shift, to, 0o600);
    set("+0");
    let environment = [
        ("LD_PRELOAD", library.to_str().unwrap()),
        ("FAKETIME_TIMESTAMP_FILE", shift.to_str().unwrap()),
        ("FAKETIME_NO_CACHE", "1"),
        // Only the wall clock: a clock that measures durations is not set by anybody.
        ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
    ];
    let mut server = Server::with_environment(&[], &environment);
    server.create_queue("q");
    let first = server.create(1, json!({}));
    let (claimed, mut last) = (server.claim(1), micros(&first["created_at"]));
    for (n, to) in (2..).zip(["+3650d", "+0", "-3600s", "+0", "+20s", "+0"]) {
        set(to);
        let created = micros(&server.create(n, json!({}))["created_at"]);
        assert!((last..last + MINUTE).contains(&created), "{to}: moved by {}", created - last);
        last = created;
        let lease = micros(&server.act(1, "heartbeat", 1).expect(200).json()["lease_expires_at"]);
        assert!((last..last + MINUTE).contains(&(lease - 5 * MINUTE)), "{to}: the lease is off by {}", lease - last);
    }
    assert_eq!(server.task(1), claimed["task"], "it still runs, and nothing was charged");
    // A start with a clock that is behind what is stored, by an hour.
    server.terminate();
    set("-3600s");
    server.start_again();
    let created = micros(&server.create(20, json!({}))["created_at"]);
    assert!((last..last + MINUTE).contains(&created), "moved by {}", created - last);
}
