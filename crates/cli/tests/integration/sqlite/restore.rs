//! The command `restore` on the real binary: what it brings back, what becomes of runs, and that it never touches a database that
//! a server owns or that it was not told to replace.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use serde_json::json;

use super::backup::{assert_sound, backup, create_large, text};
use super::support::*;

fn restore(from: &Path, database: &Path, more: &[&str]) -> Ran {
    run(&[&["restore", "--from", text(from), "--database", text(database)], more].concat(), &[])
}

#[track_caller]
pub(crate) fn assert_restored(restored: Ran) {
    let told = restored.ok_quietly();
    assert!(told.starts_with("restored ") && told.lines().count() == 1, "{told}");
}

#[track_caller]
fn assert_refuses(from: &Path, database: &Path, more: &[&str], why: &str) {
    let ran = restore(from, database, more);
    assert_eq!(ran.stderr.lines().count(), 1, "{ran:?}");
    ran.fails_with(1, &[why]);
}

#[test]
fn a_backup_is_restored_to_a_new_place_with_its_active_runs() {
    let (server, folder) = (Server::alone(), tempfile::tempdir().unwrap());
    server.create_in_states(1);
    let before = server.snapshot();
    let [copy, place] = ["copy.db", "new.db"].map(|name| folder.path().join(name));
    backup(&server.database.file(), &copy, &[]).ok_quietly();
    server.act(2, "complete", 1002).expect(204);
    assert_restored(restore(&copy, &place, &[]));
    assert_sound(&place);
    let restored = Server::with_arguments(&["--database", text(&place)]);
    assert_eq!(restored.snapshot(), before);
    restored.act(2, "heartbeat", 1002).expect(200);
    restored.act(2, "complete", 1002).expect(204);
}

#[test]
fn a_database_is_replaced_only_if_that_is_wanted_and_without_the_log_of_the_old_one() {
    let (mut server, folder) = (Server::alone(), tempfile::tempdir().unwrap());
    let (database, copy) = (server.database.file(), folder.path().join("copy.db"));
    server.create(1, json!({}));
    backup(&database, &copy, &[]).ok_quietly();
    server.create(2, json!({}));
    // The log holds what came after the backup.
    server.kill();
    assert!(fs::metadata(format!("{}-wal", database.display())).unwrap().len() > 0);
    let before = server.database.contents();
    assert_refuses(&copy, &database, &[], "--replace");
    assert!(server.database.contents() == before, "a refused restore changed the database");
    assert_restored(restore(&copy, &database, &["--replace"]));
    assert!(!PathBuf::from(format!("{}-wal", database.display())).exists());
    assert_sound(&database);
    server.start_again();
    assert_eq!(server.ids(BY_ID), [1]);
    server.create(3, json!({}));
}

#[test]
fn a_database_that_a_server_uses_is_never_replaced() {
    let (mut server, folder) = (Server::alone(), tempfile::tempdir().unwrap());
    let (database, copy) = (server.database.file(), folder.path().join("copy.db"));
    backup(&database, &copy, &[]).ok_quietly();
    server.create(1, json!({}));
    assert_refuses(&copy, &database, &["--replace"], "in use by another server");
    server.create(2, json!({}));
    server.restart_by("KILL");
    assert_eq!(server.ids(BY_ID), [1, 2]);
}

#[test]
fn a_backup_that_is_damaged_is_not_restored() {
    let (mut server, folder) = (Server::alone(), tempfile::tempdir().unwrap());
    let (database, copy) = (server.database.file(), folder.path().join("copy.db"));
    server.create_each(0..200, |_| json!({"args": {"text": "x".repeat(1_000)}}));
    backup(&database, &copy, &[]).ok_quietly();
    server.terminate();
    let before = server.database.contents();
    let mut bytes = fs::read(&copy).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle..middle + 4_096].fill(0xa5);
    fs::write(&copy, &bytes).unwrap();
    let refused = restore(&copy, &database, &["--replace"]);
    assert!(refused.stdout.starts_with("engine: "), "{refused:?}");
    refused.fails_with(1, &["nothing was changed"]);
    assert!(server.database.contents() == before, "a refused restore changed the database");
    fs::write(&copy, "a letter".repeat(1_000)).unwrap();
    assert_refuses(&copy, &database, &["--replace"], "damaged or not a database");
}

#[test]
fn a_database_is_not_restored_from_itself_nor_from_nothing() {
    let (mut server, folder) = (Server::alone(), tempfile::tempdir().unwrap());
    server.terminate();
    let database = server.database.file();
    assert_refuses(&database, &database, &["--replace"], "the same file");
    assert_refuses(&folder.path().join("missing.db"), &database, &["--replace"], "No such file");
    assert_refuses(&database, folder.path(), &["--replace"], "is not a file");
    assert_refuses(&database, &folder.path().join("missing/q.db"), &[], "cannot write");
    run(&["restore", "--from", text(&database), "--database", "postgres://localhost/d"], &[])
        .fails_with(2, &["pg_restore"]);
}

#[test]
fn what_is_no_database_of_ours_and_what_a_link_leads_to_is_never_replaced() {
    let (mut server, folder) = (Server::alone(), tempfile::tempdir().unwrap());
    server.terminate();
    let (database, place) = (server.database.file(), |name: &str| folder.path().join(name));
    let (copy, letter) = (place("copy.db"), "Dear reader, ...".repeat(300));
    backup(&database, &copy, &[]).ok_quietly();
    let before = server.database.contents();
    for name in ["letter", "gone.db-wal"] {
        fs::write(place(name), &letter).unwrap();
    }
    fs::write(place("foreign.db"), [b"SQLite format 3\0".as_slice(), &[0; 4_080]].concat()).unwrap();
    for (target, link) in
        [(&*database, "link.db"), (&place("nowhere"), "dangling.db"), (&place("letter"), "new.db-lock")]
    {
        symlink(target, place(link)).unwrap();
    }
    for (name, why) in [
        ("letter", "is not a database of taskqueue"),
        ("foreign.db", "is not a database of taskqueue"),
        ("gone.db", "is not the log of a database"),
        ("link.db", "is a symbolic link"),
        ("dangling.db", "is a symbolic link"),
        ("new.db", "symbolic link"),
    ] {
        assert_refuses(&copy, &place(name), &["--replace"], why);
    }
    for name in ["letter", "gone.db-wal"] {
        assert_eq!(fs::read_to_string(place(name)).unwrap(), letter, "{name}");
    }
    assert!(!place("nowhere").exists() && server.database.contents() == before);
}

#[test]
fn a_restore_that_is_killed_harms_nothing_and_the_next_one_names_what_it_left() {
    let (mut server, folder) = (Server::alone(), tempfile::tempdir().unwrap());
    create_large(&server, 0, 20);
    server.terminate();
    let (database, copy) = (server.database.file(), folder.path().join("copy.db"));
    backup(&database, &copy, &[]).ok_quietly();
    let before = fs::read(&database).unwrap();
    // A signal ends it when its file has 512 KiB.
    let limit = ["sh", "-c", "ulimit -f 1024; exec \"$@\"", "sh"];
    let arguments = ["restore", "--replace", "--from", text(&copy), "--database", text(&database)];
    let killed = run_inside(&limit, &arguments);
    assert_eq!(killed.code, None, "{killed:?}");
    let left = PathBuf::from(format!("{}.taskqueue-partial", database.display()));
    assert!(left.exists() && fs::read(&database).unwrap() == before);
    let said = run(&arguments, &[]).fails_with(0, &[&format!("removed {}", text(&left))]);
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(!left.exists());
    server.start_again();
    assert_eq!(server.ids(BY_ID), (0..20).collect::<Vec<_>>());
}
