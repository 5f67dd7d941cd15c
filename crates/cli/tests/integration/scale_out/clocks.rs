//! A server whose clock is off: the time is the database's (T4).

use serde_json::json;
use taskqueue_test_postgres::{Database, eventually};

use super::{fresh_database, server};
use crate::sqlite::clock::library;
use crate::support::*;

const MINUTE: i64 = 60_000_000;

fn scans(database: &Database) -> i64 {
    let rows = database.rows("SELECT coalesce(last_scan_at, 0) FROM taskqueue.clock");
    rows[0][0].as_ref().unwrap().parse().unwrap()
}

#[test]
fn a_server_whose_clock_is_off_changes_nothing() {
    for shift in ["+600s", "-600s"] {
        let database = fresh_database();
        let (url, library) = (database.url(), library());
        let right = server(&url);
        let preload = ("LD_PRELOAD", library.to_str().unwrap());
        // Only the wall clock: a clock that measures durations is not set by anybody.
        let environment = [preload, ("FAKETIME", shift), ("FAKETIME_DONT_FAKE_MONOTONIC", "1")];
        let wrong = Server::with_environment(&["--database", &url], &environment);
        right.create_queue("q");
        let first = right.create(1, json!({}));
        let second = wrong.create(2, json!({}));
        let third = right.create(3, json!({}));
        let created = |task: &serde_json::Value| micros(&task["created_at"]);
        assert!(created(&first) < created(&second) && created(&second) < created(&third), "{shift}");
        assert!(created(&third) - created(&first) < MINUTE, "{shift}");
        let (claimed, renewed) = (right.claim(1), wrong.claim(2));
        for claim in [&claimed, &renewed] {
            let lease = micros(&claim["lease_expires_at"]) - micros(&claim["task"]["started_at"]);
            assert_eq!(lease, 5 * MINUTE, "{shift}");
        }
        // The server whose clock is off scans too; alone, so that it is seen to do it.
        drop(right);
        let (before, heard) = (scans(&database), wrong.act(2, "heartbeat", 2).expect(200).json());
        eventually("the other server has scanned the leases twice", || scans(&database) >= before + 6_000_000);
        assert!(scans(&database) - before < MINUTE, "{shift}");
        assert_eq!(wrong.task(1), claimed["task"], "{shift}: it still runs, and nothing was charged");
        let lease = micros(&wrong.claim(1)["lease_expires_at"]);
        assert_eq!(lease, micros(&claimed["lease_expires_at"]), "{shift}");
        assert!((0..MINUTE).contains(&(micros(&heard["lease_expires_at"]) - lease)), "{shift}");
    }
}
