//! A full disk: writes are refused, nothing that was answered is lost, and it heals. A program of its own, because it
//! starts processes: between fork and exec they hold the locks of every store that other tests have open.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "integration/storage.rs"]
#[allow(dead_code, reason = "this program uses a part of it")]
mod storage;

use std::process::Command as Process;
use std::time::Instant;

use storage::{assert_sound, fresh};
use taskqueue_store_sqlite::{Options, SqliteStore};

use taskqueue_store::conformance::prelude::*;

const FULL_DISK: &str = "TASKQUEUE_TEST_FULL_DISK";

/// A limit on the size of files stands in for a full disk; it applies to a whole process, so a child runs the part below.
#[test]
fn a_full_disk_refuses_writes_loses_nothing_and_heals() {
    let folder = fresh();
    // Signal 25 (SIGXFSZ) would end the process; ignored, a write beyond the limit fails. 4096 blocks are some MiB.
    let script = r#"trap "" 25; ulimit -S -f 4096; exec "$0" --exact on_a_full_disk --nocapture"#;
    let child = Process::new("sh")
        .args(["-c", script])
        .arg(std::env::current_exe().unwrap())
        .env(FULL_DISK, folder.file())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&child.stdout).into_owned() + &String::from_utf8_lossy(&child.stderr);
    assert!(child.status.success() && said.contains("1 passed"), "{said}");
    assert_sound(&folder.file());
}

/// Sets how large a file this process may write; `0:` stops every write there is.
fn limit_file_size(limit: &str) {
    let (pid, limit) = (std::process::id().to_string(), format!("--fsize={limit}"));
    let set = Process::new("prlimit").args(["--pid", &pid, &limit]).status();
    assert!(set.is_ok_and(|status| status.success()), "prlimit is missing; see scripts/install-test-needs");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_a_full_disk() {
    let Some(path) = std::env::var_os(FULL_DISK) else { return };
    let clock = ManualClock::new(START);
    let store = SqliteStore::open(path.as_ref(), Arc::new(clock.clone()), &Options::default()).unwrap();
    let fixture = Fixture { store: Arc::new(store), clock };
    fixture.ok(create_queue("q")).await;
    let large = || Definition { args: object_of_bytes(50_000), ..Definition::default() };
    fixture.ok(create("q", "run", Definition { priority: 1, ..Definition::default() })).await;
    let owned = fixture.claim("run").await;
    fixture.ok(Scan).await;
    fixture.ok(print("run", "run", 0, "before ")).await;
    fixture.ok(progress("run", "run", r#"{"step":1}"#)).await;
    let printed = async || {
        let read = fixture.store.read_output(&queue("q"), task_id("run"), 0, 1_000).await;
        read.map(|output| output.text)
    };
    let mut written = 0;
    while fixture.write(create("q", written, large())).await.is_ok() {
        written += 1;
        assert!(written < 1_000, "the disk never was full");
    }
    assert!(written > 10);
    for attempt in 0..3 {
        let refused = fixture.write(create("q", written, large())).await;
        assert_eq!(refused, Err(StoreError::Unavailable), "attempt {attempt}");
        assert_eq!(fixture.count(all()).await, written + 1, "reads go on, and what failed is not there");
    }
    // Where a large task has no room left, a small write may still find some; now not even that does.
    limit_file_size("0:");
    fixture.clock.advance_seconds(1);
    assert_eq!(fixture.write(Scan).await, Err(StoreError::Unavailable));
    assert_eq!(fixture.store.check().await, Err(StoreError::Unavailable), "also for the health check");
    let expected = Err(StoreError::Unavailable);
    assert_eq!(fixture.write(claim("q", "nothing", 1)).await, expected, "also for what needs no disk");
    for command in commands![print("run", "run", 7, "meanwhile "), progress("run", "run", r#"{"step":2}"#)] {
        assert_eq!(fixture.write(command).await, Err(StoreError::Unavailable));
    }
    assert_eq!(printed().await, Ok("before ".to_owned()), "what was answered before is read");
    let before = fixture.tasks("q").await;
    assert_eq!(before.len() as u64, written + 1);
    // Longer than the lease; a scan that fails is no sign of life.
    while fixture.now() < owned.lease_expires_at {
        fixture.clock.advance_seconds(10);
        assert_eq!(fixture.write(Scan).await, Err(StoreError::Unavailable));
    }

    limit_file_size("unlimited:");
    let lifted = Instant::now();
    let credited = loop {
        match fixture.write(heartbeat("q", "run", "run")).await {
            Ok(answer) => break answer,
            Err(error) => assert_eq!(error, StoreError::Unavailable),
        }
        // The end of a test that hangs; that it is tried again within a second is in the tests of the writer.
        assert!(lifted.elapsed() < Duration::from_secs(60), "it does not heal");
        tokio::task::yield_now().await;
    };
    assert_eq!(credited, fixture.now().plus_seconds(300), "the outage is not held against the run");
    fixture.ok(print("run", "run", 7, "again and ")).await;
    fixture.ok(print("run", "run", 17, "after")).await;
    assert_eq!(printed().await, Ok("before again and after".to_owned()), "what was refused is not there");
    let step = fixture.get("run").await.outcome.progress.map(|progress| progress.value);
    assert_eq!(step, Some(object(r#"{"step":1}"#)));
    fixture.ok(create("q", written, large())).await;
    assert_eq!(fixture.store.check().await, Ok(vec![]));
    let after = fixture.tasks("q").await;
    let untouched = |tasks: Vec<Task>| -> Vec<Task> {
        tasks.into_iter().filter(|task| ![task_id(written), task_id("run")].contains(&task.id)).collect()
    };
    assert!(untouched(after.clone()) == untouched(before), "what was answered before is still there");
    assert_eq!(after.len() as u64, written + 2);
    fixture.claim(1).await;
    fixture.ok(Scan).await;
    fixture.store.close().await;
    assert_sound(path.as_ref());
}
