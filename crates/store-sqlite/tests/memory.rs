//! What stored things cost in memory: the numbers of docs/memory.md, measured as growth of a process that opens them. A program
//! of its own, because it starts such processes: between fork and exec they hold the locks of every store that other tests have
//! open.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::print_stdout, reason = "figures for those who ask for them with --nocapture")]

#[path = "integration/storage.rs"]
#[allow(dead_code, reason = "this program uses a part of it")]
mod storage;

use std::fs;
use std::path::Path;
use std::process::Command;

use rusqlite::{Connection, params};
use taskqueue_store_sqlite::{Extended, Options, PackedHead, SqliteStore};

use storage::{Folder, fresh};

use taskqueue_store::conformance::prelude::*;

fn open(file: &Path) -> SqliteStore {
    let clock = ManualClock::new(START);
    SqliteStore::open(file, Arc::new(clock), &Options::default()).unwrap()
}

/// What this process has in memory now.
fn resident_bytes() -> i64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.split_whitespace().next().unwrap().parse::<i64>().unwrap() * 1024
}

/// A file with one task in `q`, which `multiply` copies under other keys and ids.
fn file_with(multiply: impl FnOnce(&Connection)) -> Folder {
    let folder = fresh();
    let store = open(&folder.file());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(store.write(create_queue("q"))).unwrap();
    runtime.block_on(store.write(create("q", 0, Definition::default()))).unwrap();
    drop(store);
    let file = Connection::open(folder.file()).unwrap();
    multiply(&file);
    drop(file);
    folder
}

/// The file whose cost a child of this process is to tell.
const FILE: &str = "COST_OF_FILE";

/// How much larger a process is with a store over the file. A process of its own for each: what one has freed, the next
/// would not have to ask for.
fn cost_of(folder: &Folder) -> i64 {
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "stored_things_cost_in_memory_what_the_documents_say", "--nocapture"])
        .env(FILE, folder.file())
        .output()
        .unwrap();
    let output = String::from_utf8_lossy(&child.stdout).into_owned();
    let cost = output.lines().find_map(|line| line.split_once("cost: ")?.1.trim().parse().ok());
    cost.unwrap_or_else(|| panic!("{output}{}", String::from_utf8_lossy(&child.stderr)))
}

/// What the child does.
fn tell_cost(file: &Path) {
    let before = resident_bytes();
    let store = open(file);
    println!("\ncost: {}", resident_bytes() - before);
    drop(store);
}

/// Copies the one task so many times, with this status and these routes.
fn copies(file: &Connection, count: usize, routes: impl Fn(usize) -> String, status: &str) {
    copies_with(file, count, routes, status, Extended::default());
}

/// Copies the one task so many times, pending, and beside the pending order because of this.
fn extended(file: &Connection, count: usize, extended: Extended<'_>) {
    copies_with(file, count, |_| "[\"default\"]".to_owned(), "pending", extended);
}

fn copies_with(
    file: &Connection,
    count: usize,
    routes: impl Fn(usize) -> String,
    status: &str,
    extended: Extended<'_>,
) {
    let (key, queue_key, packed) = file
        .query_row("SELECT task_key, queue_key, packed FROM tasks", [], |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, row.get::<_, Vec<u8>>(2)?))
        })
        .unwrap();
    let one = PackedHead::unpack(&packed).unwrap();
    file.execute_batch("BEGIN").unwrap();
    let insert = "INSERT INTO tasks (task_key, queue_key, id, created_at, status, packed)
        SELECT ?1, ?2, ?3, created_at, ?4, ?5 FROM tasks WHERE task_key = ?6";
    let mut insert = file.prepare(insert).unwrap();
    for copy in 1..=count {
        let (number, routes) = (i64::try_from(copy).unwrap(), routes(copy));
        let packed = PackedHead { pending_seq: number, routes: &routes, extended, ..one }.pack();
        insert.execute(params![key + number, queue_key, format!("t_{copy:012}"), status, packed, key]).unwrap();
    }
    file.execute_batch("COMMIT").unwrap();
}

#[test]
fn stored_things_cost_in_memory_what_the_documents_say() {
    const COUNT: usize = 200_000;
    if let Some(file) = std::env::var_os(FILE) {
        return tell_cost(Path::new(&file));
    }
    let one_route = |_| "[\"default\"]".to_owned();
    let own_route = |copy| format!("[\"route-{copy:07}\"]");
    let cost = |multiply: &dyn Fn(&Connection)| cost_of(&file_with(multiply));
    let nothing = cost(&|_| {});
    let finished = cost(&|file| copies(file, COUNT, one_route, "succeeded"));
    let pending = cost(&|file| copies(file, COUNT, one_route, "pending"));
    let own = cost(&|file| copies(file, COUNT, own_route, "pending"));
    let not_before = Some(Timestamp::from_micros(i64::MAX));
    let delayed = cost(&|file| extended(file, COUNT, Extended { not_before, ..Extended::default() }));
    let blocked = cost(&|file| extended(file, COUNT, Extended { unmet: 1, ..Extended::default() }));
    let each = |cost: i64| cost.max(0) / COUNT as i64;
    // Reading a large file fills the page cache of the writer, whatever is in it.
    let cache = 17 << 20;
    let cases = [
        ("a finished task", each(finished - nothing - cache), 8),
        ("a pending task of a route that has others", each(pending - finished), 56),
        ("a pending task of a route of its own", each(own - finished), 128 + 13),
        ("a delayed task", each(delayed - finished), 112),
        ("a task that waits for others", each(blocked - finished), 24),
    ];
    for (what, bytes, most) in cases {
        println!("{what}: {bytes} bytes");
        assert!(bytes <= most, "{what} costs {bytes} bytes and not {most}, as docs/memory.md says");
    }
}
