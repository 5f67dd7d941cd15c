//! The files of an SQLite database of a running server: no other server may open them, what happens when they are removed
//! or replaced, their permissions, and when they are synced (docs/decisions/0020).

use std::fs;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;
use taskqueue_test_postgres::eventually;

use super::support::*;

/// Does what follows in a mount namespace in which the second path leads to the file of the first.
const MOUNTED: &str = "mount --bind \"$1\" \"$2\" && shift 2 && exec \"$@\"";

/// A program that does so here: as root, or in a user namespace of its own. Nothing where neither is allowed.
pub(crate) fn mounting() -> Option<Vec<&'static str>> {
    let ways = [vec!["unshare", "--mount"], vec!["unshare", "--user", "--map-root-user", "--mount"]];
    let folder = tempfile::tempdir().unwrap();
    let [first, second] = ["a", "b"].map(|name| folder.path().join(name));
    fs::write(&first, "").unwrap();
    fs::write(&second, "").unwrap();
    ways.into_iter().find(|way| {
        let mut tried = Command::new(way[0]);
        tried.args(&way[1..]).args(["sh", "-c", MOUNTED, "sh"]).args([&first, &second]).arg("true");
        tried.output().is_ok_and(|output| output.status.success())
    })
}

fn with_suffix(file: &Path, suffix: &str) -> PathBuf {
    PathBuf::from(format!("{}{suffix}", file.display()))
}

/// For servers that may answer 503 because of their storage.
fn request(connection: &mut Connection, method: &str, path: &str) -> Response {
    connection.exchange(&Request::new(method, path).json(json!({}))).unwrap()
}

#[track_caller]
fn assert_stopped(server: &Server, n: usize) {
    let mut connection = server.connect();
    request(&mut connection, "PUT", &of_task(n, "")).assert_error(503, "database_unavailable");
    assert_eq!(request(&mut connection, "GET", "/health").status, 503);
}

#[track_caller]
fn assert_in_use(ran: Ran) {
    assert_eq!(ran.stdout, "", "{ran:?}");
    ran.fails_with(1, &["in use by another server"]);
}

#[test]
fn a_second_server_is_refused_under_every_other_name_of_the_file() {
    let mut server = Server::alone();
    server.create(1, json!({}));
    let (folder, file) = (tempfile::tempdir().unwrap(), server.database.file());
    let other = folder.path().join("other.db");

    assert_in_use(run(&serving(file.to_str().unwrap()), &[]));
    // As a container sees a single file that it was given. Where nobody may mount, the next name is as good.
    if let Some(way) = mounting() {
        fs::write(&other, "").unwrap();
        let names = [file.to_str().unwrap(), other.to_str().unwrap()];
        let wrapper = [&way[..], &["sh", "-c", MOUNTED, "sh"], &names].concat();
        assert_in_use(run_inside(&wrapper, &serving(names[1])));
        fs::remove_file(&other).unwrap();
        server.create(2, json!({}));
    }
    // Neither the lock beside it nor the number of its names tells of the first server.
    fs::rename(&file, &other).unwrap();
    assert_in_use(run(&serving(other.to_str().unwrap()), &[]));
    fs::rename(&other, &file).unwrap();

    eventually("writes are taken again", || request(&mut server.connect(), "PUT", &of_task(3, "")).status < 300);
    let before = server.ids(BY_ID);
    server.restart_by("KILL");
    assert_eq!(server.ids(BY_ID), before);
}

/// What somebody does to the files; they get an older copy of the log.
type Deed = fn(&Path, &[u8]);

#[test]
fn everything_acknowledged_survives_a_kill_after_files_of_the_database_were_removed_or_replaced() {
    let deeds: [(&str, Deed); 6] = [
        ("the log is removed", |file, _| fs::remove_file(with_suffix(file, "-wal")).unwrap()),
        ("the log is replaced by an older one", |file, older| {
            fs::remove_file(with_suffix(file, "-wal")).unwrap();
            fs::write(with_suffix(file, "-wal"), older).unwrap();
        }),
        ("the log is replaced by garbage", |file, _| {
            fs::write(with_suffix(file, "-new"), vec![0xa5; 40_000]).unwrap();
            fs::rename(with_suffix(file, "-new"), with_suffix(file, "-wal")).unwrap();
        }),
        ("the index is removed", |file, _| fs::remove_file(with_suffix(file, "-shm")).unwrap()),
        ("log and index are removed", |file, _| {
            fs::remove_file(with_suffix(file, "-wal")).unwrap();
            fs::remove_file(with_suffix(file, "-shm")).unwrap();
        }),
        ("the lock is removed", |file, _| fs::remove_file(with_suffix(file, "-lock")).unwrap()),
    ];
    for (what, deed) in deeds {
        let mut server = Server::alone();
        let file = server.database.file();
        server.create(1, json!({"priority": 1}));
        let older = fs::read(with_suffix(&file, "-wal")).unwrap();
        server.create_each(2..20, |_| json!({}));
        server.patch(&of_task(1, ""), json!({"priority": 7})).expect(200);
        deed(&file, &older);
        assert_stopped(&server, 20);
        server.await_log_lines("start the server again", 1);
        server.restart_by("KILL");
        assert_eq!(server.ids(BY_ID), (1..20).collect::<Vec<_>>(), "{what}");
        assert_eq!(server.task(1)["priority"], 7, "{what}");
        server.create(20, json!({}));
        server.restart();
        assert_eq!(server.ids(BY_ID).len(), 20, "{what}");
    }
}

#[test]
fn readers_that_were_idle_when_the_log_was_removed_read_what_was_acknowledged() {
    let server = Server::alone();
    server.create_each(1..5, |_| json!({}));
    fs::remove_file(with_suffix(&server.database.file(), "-wal")).unwrap();
    assert_eq!(server.ids(BY_ID), [1, 2, 3, 4]);
    assert_eq!(server.task(4)["status"], "pending");
}

/// The removal falls between the look at the files and the answers of some batch, again and again.
#[test]
fn no_answer_is_given_for_what_lies_in_a_removed_log_alone() {
    const MANY: usize = 5_000;
    for round in 0..4 {
        let mut server = Server::alone();
        let log = with_suffix(&server.database.file(), "-wal");
        let acknowledged: Vec<usize> = in_parallel(5, |thread| {
            if thread == 4 {
                eventually("some are written", || server.list("limit=1000")["items"].as_array().unwrap().len() > 20);
                fs::remove_file(&log).unwrap();
                return Vec::new();
            }
            let (mine, mut connection) = ((0..MANY).map(|n| thread * MANY + n), server.connect());
            mine.take_while(|n| request(&mut connection, "PUT", &of_task(*n, "")).status == 201).collect()
        })
        .concat();
        assert!(acknowledged.len() < 4 * MANY, "nobody noticed");
        server.restart_by("KILL");
        let lost: Vec<_> = acknowledged.iter().filter(|n| server.get(&of_task(**n, "")).status != 200).collect();
        assert!(lost.is_empty(), "round {round}: {lost:?} of {}: {}", acknowledged.len(), server.stderr());
    }
}

#[test]
fn a_database_that_was_deleted_can_be_copied_from_the_running_server() {
    let mut server = Server::alone();
    let file = server.database.file();
    server.create_each(1..8, |_| json!({}));
    fs::remove_file(&file).unwrap();
    assert_stopped(&server, 8);
    server.await_log_lines("copy /proc/", 1);
    let told = server.stderr();
    let descriptor = told.split("copy ").nth(1).unwrap().split(' ').next().unwrap();
    let copy = with_suffix(&file, ".copy");
    fs::copy(descriptor, &copy).unwrap();
    server.kill();
    for suffix in ["-wal", "-shm"] {
        fs::remove_file(with_suffix(&file, suffix)).unwrap();
    }
    fs::rename(&copy, &file).unwrap();
    server.start_again();
    assert_eq!(server.ids(BY_ID), (1..8).collect::<Vec<_>>());
}

#[test]
fn the_watchdog_does_not_end_a_server_that_holds_a_deleted_database() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    let environment = [("NOTIFY_SOCKET", path.to_str().unwrap()), ("WATCHDOG_USEC", "200000")];
    let server = Server::with_environment(&["--queue", "q"], &environment);
    server.create(1, json!({}));
    fs::remove_file(server.database.file()).unwrap();
    assert_stopped(&server, 2);
    assert_watchdog_hears(&socket);
}

#[test]
fn the_files_of_a_new_database_are_for_their_owner_only() {
    let mut server = Server::alone();
    let file = server.database.file();
    for suffix in ["", "-wal", "-shm", "-lock"] {
        assert_eq!(mode(&with_suffix(&file, suffix)), 0o600, "{suffix}");
    }
    assert_eq!(server.count_log_lines("chmod"), 0, "{}", server.stderr());
    server.terminate();
    set_mode(&file, 0o640);
    server.start_again();
    assert_eq!((mode(&file), mode(&with_suffix(&file, "-wal"))), (0o640, 0o640), "what was chosen is kept");
    assert_eq!(server.count_log_lines("chmod 600"), 1, "and a warning: {}", server.stderr());
}

/// Counted by the kernel's word for it: what only a power cut could show is whether anything was synced at all.
#[test]
fn every_acknowledged_write_has_synced_the_log() {
    const WRITES: usize = 25;
    let folder = tempfile::tempdir().unwrap();
    let calls = folder.path().join("calls");
    let trace = ["strace", "-D", "-f", "-qq", "-y", "-e", "trace=fsync,fdatasync", "-o", calls.to_str().unwrap()];
    let mut server = Server::started_by(&trace);
    let syncs = || {
        let calls = fs::read_to_string(&calls).unwrap_or_default();
        calls.lines().filter(|line| line.contains("q.db-wal>") && line.contains("= 0")).count()
    };
    // One at a time, so that no sync serves two; each is counted before the next one is sent.
    for n in 0..WRITES {
        let before = syncs();
        server.create(n, json!({}));
        eventually("the trace shows a sync", || syncs() > before);
    }
    assert!(server.terminate().success());
}
