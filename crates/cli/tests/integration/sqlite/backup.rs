//! The command `backup` on the real binary: what it copies while the server writes, what a kill or a full disk leaves, and what it
//! refuses (docs/decisions/0056).

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};
use taskqueue_test_postgres::eventually;

use super::support::*;

/// So slow that a test can do something meanwhile: a MiB each second.
const SLOW: [&str; 2] = ["--rate", "1"];

pub(crate) fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

pub(crate) fn backup(database: &Path, to: &Path, more: &[&str]) -> Ran {
    run(&[&["backup", "--database", text(database), "--to", text(to)], more].concat(), &[])
}

/// A backup that a test can kill.
fn spawn_backup(database: &Path, to: &Path) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_taskqueue"));
    command.args(["backup", "--replace", "--database", text(database), "--to", text(to)]).args(SLOW);
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

fn partial(to: &Path) -> PathBuf {
    PathBuf::from(format!("{}.taskqueue-partial", to.display()))
}

fn size(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |found| found.len())
}

/// Waits until a backup has copied so much.
fn await_copied(to: &Path, bytes: u64) {
    eventually("the backup copies", || size(&partial(to)) >= bytes);
}

pub(crate) fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Tasks from `first` on, of 50 KB each.
pub(crate) fn create_large(server: &Server, first: usize, count: usize) {
    server.create_each(first..first + count, |_| json!({"args": {"text": "x".repeat(50_000)}}));
}

#[track_caller]
pub(crate) fn assert_sound(database: &Path) {
    run(&["check", "--database", text(database)], &[]).ok_quietly();
}

/// What a server on this file has.
fn ids_in(database: &Path) -> Vec<usize> {
    let mut server = Server::with_arguments(&["--database", text(database)]);
    let ids = server.ids(BY_ID);
    server.terminate();
    ids
}

#[track_caller]
fn assert_refuses(database: &Path, to: &Path, more: &[&str], why: &str) {
    backup(database, to, more).refuses_with(1, &[why]);
}

#[test]
fn a_backup_under_load_holds_everything_that_was_acknowledged_before_it() {
    let (server, folder) = (Server::alone(), tempfile::tempdir().unwrap());
    let (database, to) = (server.database.file(), folder.path().join("copy.db"));
    create_large(&server, 0, 60);
    let acknowledged = std::sync::Mutex::new(Vec::new());
    let next = std::sync::atomic::AtomicUsize::new(1_000);
    let write = |_| {
        let n = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        // Not more than a page.
        if n >= 1_900 {
            return std::thread::yield_now();
        }
        server.create(n, json!({"args": {"text": "y".repeat(5_000)}}));
        acknowledged.lock().unwrap().push(n);
    };
    let mut before = Vec::new();
    meanwhile(&[&write, &write], || {
        eventually("some are written", || acknowledged.lock().unwrap().len() > 20);
        before = acknowledged.lock().unwrap().clone();
        let told = backup(&database, &to, &["--rate", "2", "--output", "json"]).ok_quietly();
        assert_eq!(told.lines().count(), 1, "{told}");
        let told: Value = serde_json::from_str(&told).unwrap();
        assert_eq!(told["bytes"], size(&to), "{told}");
        assert!(told["seconds"].as_f64().unwrap() > 1.0 && told["tasks"].as_u64().unwrap() >= 80, "{told}");
    });
    assert_eq!(names(folder.path()), ["copy.db"], "one file, without a log");
    assert_eq!(mode(&to), 0o600);
    assert_sound(&to);
    let (copied, kept) = (ids_in(&to), server.ids(BY_ID));
    assert!((0..60).chain(before).all(|n| copied.contains(&n)), "{copied:?}");
    let acknowledged = acknowledged.into_inner().unwrap();
    assert!(acknowledged.iter().all(|n| kept.contains(n)), "the server lost a write");
    assert!(copied.iter().all(|n| *n < 60 || acknowledged.contains(n)), "more than was acknowledged");
    assert_sound(&database);
}

#[test]
fn a_backup_that_is_killed_harms_nothing_and_the_next_one_cleans_up() {
    let (server, folder) = (Server::alone(), tempfile::tempdir().unwrap());
    let (database, to) = (server.database.file(), folder.path().join("copy.db"));
    create_large(&server, 0, 60);
    backup(&database, &to, &[]).ok();
    let earlier = fs::read(&to).unwrap();
    for (round, bytes) in [1, 1 << 20, 2 << 20].into_iter().enumerate() {
        server.create(100 + round, json!({}));
        let mut killed = spawn_backup(&database, &to);
        await_copied(&to, bytes);
        killed.kill().unwrap();
        killed.wait().unwrap();
        assert!(fs::read(&to).unwrap() == earlier, "the earlier backup was changed");
        assert_eq!(names(folder.path()), ["copy.db", "copy.db.taskqueue-partial"]);
        server.create(200 + round, json!({}));
    }
    assert_sound(&database);
    let other = folder.path().join("other.db");
    backup(&database, &other, &[]).ok();
    assert_eq!(names(folder.path()), ["copy.db", "other.db"], "what was left is gone");
    assert_eq!(ids_in(&other), server.ids(BY_ID));
    assert_eq!(ids_in(&to), (0..60).collect::<Vec<_>>());
}

#[test]
fn a_backup_that_is_asked_to_stop_leaves_nothing() {
    let (server, folder) = (Server::alone(), tempfile::tempdir().unwrap());
    let to = folder.path().join("copy.db");
    create_large(&server, 0, 60);
    for signal in ["INT", "TERM"] {
        let mut stopped = spawn_backup(&server.database.file(), &to);
        await_copied(&to, 1);
        let id = stopped.id().to_string();
        assert!(Command::new("kill").arg(format!("-{signal}")).arg(id).status().unwrap().success());
        assert_eq!(stopped.wait().unwrap().code(), Some(130), "{signal}");
        assert_eq!(names(folder.path()), Vec::<String>::new(), "{signal}");
    }
}

#[test]
fn a_server_that_is_killed_or_stopped_during_a_backup_loses_nothing_and_the_backup_is_whole() {
    for signal in ["KILL", "TERM"] {
        let (mut server, folder) = (Server::alone(), tempfile::tempdir().unwrap());
        let (database, to) = (server.database.file(), folder.path().join("copy.db"));
        create_large(&server, 0, 60);
        let mut copying = spawn_backup(&database, &to);
        await_copied(&to, 1);
        server.create(100, json!({}));
        server.restart_by(signal);
        server.create(101, json!({}));
        assert!(copying.wait().unwrap().success(), "{signal}");
        assert_sound(&to);
        assert_eq!(ids_in(&to), (0..60).collect::<Vec<_>>(), "{signal}");
        assert_eq!(server.ids(BY_ID), (0..60).chain([100, 101]).collect::<Vec<_>>(), "{signal}");
        server.restart();
        assert_sound(&database);
    }
}

/// In a mount namespace of its own, in which the folder is read-only.
const READ_ONLY: &str = "mount --bind \"$1\" \"$1\" && mount -o remount,bind,ro \"$1\" && shift && exec \"$@\"";

#[test]
fn a_stopped_and_a_killed_server_are_backed_up_also_read_only_and_their_files_stay_as_they_are() {
    let (mut server, folder) = (Server::alone(), tempfile::tempdir().unwrap());
    let (database, mounting) = (server.database.file(), super::files::mounting());
    for (n, signal) in [(1, "TERM"), (2, "KILL")] {
        server.create(n, json!({}));
        server.signal(signal);
        server.wait();
        // Before the other backup, which may leave something for the next one. Where nobody may mount, it is left out.
        if let Some(way) = &mounting {
            let wrapper = [&way[..], &["sh", "-c", READ_ONLY, "sh", text(database.parent().unwrap())]].concat();
            let to = folder.path().join(format!("{signal}-read-only.db"));
            run_inside(&wrapper, &["check", "--database", text(&database)]).ok_quietly();
            run_inside(&wrapper, &["backup", "--database", text(&database), "--to", text(&to)]).ok_quietly();
            assert_eq!(ids_in(&to), (1..=n).collect::<Vec<_>>(), "SIG{signal}");
        }
        let read = || {
            let files = names(database.parent().unwrap()).into_iter().filter(|name| !name.ends_with("-shm"));
            files.map(|name| (fs::read(database.with_file_name(&name)).unwrap(), name)).collect::<Vec<_>>()
        };
        let before = read();
        let to = folder.path().join(format!("{signal}.db"));
        backup(&database, &to, &[]).ok_quietly();
        assert!(read() == before, "SIG{signal}");
        assert_eq!(ids_in(&to), (1..=n).collect::<Vec<_>>(), "SIG{signal}");
        server.start_again();
    }
}

#[test]
fn a_full_disk_is_told_and_nothing_is_left() {
    let (server, folder) = (Server::alone(), tempfile::tempdir().unwrap());
    let (database, to) = (server.database.file(), folder.path().join("copy.db"));
    create_large(&server, 0, 30);
    // A file cannot become larger than 512 KiB.
    let limit = ["sh", "-c", "trap '' XFSZ; ulimit -f 1024; exec \"$@\"", "sh"];
    let full = run_inside(&limit, &["backup", "--database", text(&database), "--to", text(&to)]);
    full.refuses_with(1, &["cannot write", "copy.db"]);
    assert_eq!(names(folder.path()), Vec::<String>::new());
    assert_sound(&database);
    server.create(100, json!({}));
}

#[test]
fn an_earlier_backup_is_replaced_only_if_that_is_wanted() {
    let (server, folder) = (Server::alone(), tempfile::tempdir().unwrap());
    let (database, to) = (server.database.file(), folder.path().join("copy.db"));
    backup(&database, &to, &[]).ok();
    server.create(1, json!({}));
    assert_refuses(&database, &to, &[], "exists");
    assert_eq!(ids_in(&to), [] as [usize; 0]);
    let told = backup(&database, &to, &["--replace"]).ok_quietly();
    assert!(told.starts_with("backed up ") && told.contains("(1 task, ") && told.contains(" KiB)"), "{told}");
    assert_eq!(ids_in(&to), [1]);
}

#[test]
fn a_target_that_would_harm_something_is_refused() {
    let (server, folder) = (Server::alone(), tempfile::tempdir().unwrap());
    let (database, place) = (server.database.file(), |name: &str| folder.path().join(name));
    let replacing = ["--replace"];
    for suffix in ["", "-wal", "-shm", "-lock"] {
        let own = PathBuf::from(format!("{}{suffix}", database.display()));
        assert_refuses(&database, &own, &replacing, "a file of the database itself");
    }
    // Under another name of the folder.
    symlink(database.parent().unwrap(), place("folder")).unwrap();
    assert_refuses(&database, &place("folder/q.db"), &replacing, "a file of the database itself");
    symlink(&database, place("link.db")).unwrap();
    assert_refuses(&database, &place("link.db"), &replacing, "symbolic link");
    symlink(place("nowhere"), place("dangling.db")).unwrap();
    assert_refuses(&database, &place("dangling.db"), &replacing, "symbolic link");
    fs::write(place("letter"), "Dear reader, ...".repeat(100)).unwrap();
    assert_refuses(&database, &place("letter"), &replacing, "not a backup of taskqueue");
    assert_refuses(&database, folder.path(), &replacing, "is not a file");
    assert_refuses(&database, &place("missing/copy.db"), &[], "cannot write");
    fs::write(place("used.db-wal"), "").unwrap();
    assert_refuses(&database, &place("used.db"), &[], "used.db-wal exists");
    let other = Server::alone();
    assert_refuses(&database, &other.database.file(), &replacing, "q.db-wal exists");
    assert_eq!(fs::read_to_string(place("letter")).unwrap(), "Dear reader, ...".repeat(100));
    server.create(1, json!({}));
    other.create(1, json!({}));
}

#[test]
fn a_source_that_is_no_database_of_ours_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (source, to) = (folder.path().join("source"), folder.path().join("copy.db"));
    assert_refuses(&source, &to, &[], "No such file");
    fs::write(&source, "This is a letter, not a database.\n".repeat(200)).unwrap();
    assert_refuses(&source, &to, &[], "damaged or not a database");
    assert_eq!(names(folder.path()), ["source"]);
}

#[test]
fn postgresql_has_its_own_tools() {
    let ran = run(&["backup", "--database", "postgres://u:secret@localhost/d", "--to", "x.db"], &[]);
    let refusal = ran.refuses_with(2, &["pg_dump", "docs/backup.md"]);
    assert!(!refusal.contains("secret"), "{refusal}");
}
