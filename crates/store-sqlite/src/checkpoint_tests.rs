//! Checkpoints that fail, and what is left for the writer.

use std::fs::OpenOptions;
use std::path::Path;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::*;
use crate::open;
use crate::ownership::{Lost, path_of};

/// A file with a table, its writer and its checkpointer.
fn opened() -> (Checkpointer, Connection, Arc<Ownership>, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let ownership = Arc::new(Ownership::take(&folder.path().join("tasks.db")).unwrap());
    let mut writer = open::writer(ownership.path()).unwrap();
    writer.execute_batch("CREATE TABLE numbers (number)").unwrap();
    let connection = open::checkpointer(ownership.path()).unwrap();
    let checkpointer = Checkpointer::start(connection, Arc::clone(&ownership)).unwrap();
    checkpointer.watch(&mut writer).unwrap();
    writer.execute_batch("INSERT INTO numbers VALUES (1)").unwrap();
    (checkpointer, writer, ownership, folder)
}

/// Cuts off the log, so that reading it fails (`SQLITE_IOERR_SHORT_READ`).
fn cut_log(path: &Path) {
    OpenOptions::new().write(true).open(path_of(path, Lost::Log)).unwrap().set_len(100).unwrap();
}

#[test]
fn a_checkpoint_of_the_thread_that_fails_is_the_last_one() {
    let (checkpointer, writer, ownership, _folder) = opened();
    cut_log(ownership.path());
    checkpointer.wake.as_ref().unwrap().send(()).unwrap();
    let begun = Instant::now();
    while !ownership.copying_failed() {
        assert!(begun.elapsed() < Duration::from_secs(20), "the failure has no consequence");
        std::thread::yield_now();
    }
    for mode in [Mode::Passive, Mode::Full, Mode::Truncate] {
        assert_eq!(run(&writer, &ownership, mode), None);
    }
    drop(checkpointer.pause());
    assert!(!checkpointer.rest_requested.load(Ordering::Relaxed));
}

#[test]
fn a_checkpoint_of_the_writer_that_fails_is_the_last_one() {
    let (mut checkpointer, writer, ownership, _folder) = opened();
    checkpointer.committed(&writer);
    assert!(!ownership.copying_failed(), "nothing was requested");
    cut_log(ownership.path());
    checkpointer.rest_requested.store(true, Ordering::Relaxed);
    checkpointer.committed(&writer);
    assert!(ownership.copying_failed());
    assert_eq!(run(&writer, &ownership, Mode::Passive), None);
}

#[test]
fn the_writer_copies_nothing_while_the_thread_does() {
    let (mut checkpointer, writer, ownership, _folder) = opened();
    checkpointer.rest_requested.store(true, Ordering::Relaxed);
    let running = Arc::clone(&checkpointer.running);
    let paused = running.lock().unwrap();
    cut_log(ownership.path());
    checkpointer.committed(&writer);
    assert!(!ownership.copying_failed(), "it would have failed");
    drop(paused);
    checkpointer.committed(&writer);
    assert!(ownership.copying_failed(), "the request is still there");
}

#[test]
fn only_what_counted_nothing_as_copied_is_tried_again() {
    for (code, harmless) in [
        (ffi::SQLITE_BUSY, true),
        (ffi::SQLITE_FULL, true),
        (ffi::SQLITE_IOERR_WRITE, true),
        (ffi::SQLITE_IOERR, false),
        (ffi::SQLITE_IOERR_FSYNC, false),
        (ffi::SQLITE_IOERR_SHORT_READ, false),
        (ffi::SQLITE_CORRUPT, false),
    ] {
        let error = rusqlite::Error::SqliteFailure(ffi::Error::new(code), None);
        assert_eq!(is_harmless(&error), harmless, "{code}");
    }
}

#[test]
fn the_log_stays_when_the_last_connection_is_closed_unless_it_was_emptied() {
    let (checkpointer, writer, ownership, _folder) = opened();
    let log = path_of(ownership.path(), Lost::Log);
    drop((checkpointer, writer));
    assert!(std::fs::metadata(&log).unwrap().len() > 0);
    let writer = open::writer(ownership.path()).unwrap();
    assert_eq!(writer.query_row("SELECT number FROM numbers", [], |row| row.get(0)), Ok(1));
    empty_log(&writer, &ownership);
    drop(writer);
    assert!(!log.exists());
}

#[test]
fn the_writer_is_asked_for_little_and_for_more_only_if_it_outruns_the_thread() {
    assert_eq!(next_step(0, false, 1), Next::Request);
    assert_eq!(next_step(REST_PAGES - 1, true, 1), Next::Request);
    assert_eq!(next_step(REST_PAGES, true, 1), Next::Copy);
    assert_eq!(next_step(100 * REST_PAGES, true, MAX_COPIES - 1), Next::Copy);
    assert_eq!(next_step(REST_PAGES, true, MAX_COPIES), Next::Request);
    assert_eq!(next_step(REST_PAGES, false, 1), Next::Leave, "a reader needs it");
}
