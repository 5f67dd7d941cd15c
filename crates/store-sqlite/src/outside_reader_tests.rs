//! A file is read as of one moment, and nothing beside it is created, changed or removed.

use std::fs;
use std::sync::Arc;

use taskqueue_store::StoreExt;
use taskqueue_store::clock::SystemClock;
use taskqueue_store::conformance::commands::create_queue;

use super::*;
use crate::{Options, SqliteStore};

fn open_store(file: &Path) -> SqliteStore {
    SqliteStore::open(file, Arc::new(SystemClock::new()), &Options::default()).unwrap()
}

fn queues(reader: &mut OutsideReader) -> Result<i64, OpenError> {
    let count = reader.connection.query_row("SELECT count(*) FROM queues", [], |row| row.get(0));
    count.map_err(|error| OpenError::of_sqlite(reader.path(), &error))
}

/// The files of a folder with their sizes.
fn files(folder: &Path) -> Vec<(String, u64)> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    let mut files: Vec<_> =
        entries.map(|entry| (entry.file_name().into_string().unwrap(), entry.metadata().unwrap().len())).collect();
    files.sort();
    files
}

#[tokio::test]
async fn reading_leaves_the_files_of_a_stopped_and_of_a_running_server_as_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("q ?#%é.db");
    let store = open_store(&file);
    store.write(create_queue("a")).await.unwrap();
    let before = files(folder.path());
    assert_eq!(before.len(), 4, "{before:?}");
    assert_eq!(read(&file, queues).unwrap(), 1);
    assert_eq!(files(folder.path()), before, "beside a running server");
    store.write(create_queue("b")).await.unwrap();
    drop(store);
    let before = files(folder.path());
    assert_eq!(before.len(), 2, "{before:?}");
    assert_eq!(read(&file, queues).unwrap(), 2);
    assert_eq!(files(folder.path()), before, "beside a stopped server");
}

#[tokio::test]
async fn a_snapshot_stays_as_it_is_while_the_server_writes() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("q.db");
    let store = open_store(&file);
    store.write(create_queue("a")).await.unwrap();
    let mut reader = OutsideReader::open(&file).unwrap();
    for name in ["b", "c"] {
        store.write(create_queue(name)).await.unwrap();
        assert_eq!(queues(&mut reader).unwrap(), 1);
    }
    drop(store);
    assert_eq!(queues(&mut reader).unwrap(), 1, "also when the server has ended");
    assert_eq!(read(&file, queues).unwrap(), 3);
}

#[tokio::test]
async fn what_a_killed_server_left_in_its_log_is_read_and_stays_there() {
    let (folder, killed) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let file = folder.path().join("q.db");
    let store = open_store(&file);
    store.write(create_queue("a")).await.unwrap();
    for name in ["q.db", "q.db-wal"] {
        fs::copy(folder.path().join(name), killed.path().join(name)).unwrap();
    }
    let log = fs::read(killed.path().join("q.db-wal")).unwrap();
    assert_eq!(read(&killed.path().join("q.db"), queues).unwrap(), 1);
    assert_eq!(fs::read(killed.path().join("q.db-wal")).unwrap(), log);
}

#[tokio::test]
async fn what_was_read_while_a_server_was_started_is_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("q.db");
    drop(open_store(&file));
    let mut stores = Vec::new();
    let mut seen = Vec::new();
    let found = read(&file, |reader| {
        let found = queues(reader)?;
        seen.push(found);
        if stores.is_empty() {
            let store = open_store(&file);
            futures_of(store.write(create_queue("a")));
            stores.push(store);
        }
        Ok::<_, OpenError>(found)
    });
    assert_eq!((found.unwrap(), seen), (1, vec![0, 1]));
}

/// Waits for a future on another thread, because this one is in a runtime.
fn futures_of<T: Send>(future: impl Future<Output = T> + Send) {
    std::thread::scope(|scope| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        scope.spawn(move || runtime.block_on(future)).join().map(drop).unwrap();
    });
}

#[test]
fn what_is_no_database_file_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let [file, link] = ["q.db", "link.db"].map(|name| folder.path().join(name));
    let refused = |path: &Path| OutsideReader::open(path).err().unwrap().to_string();
    assert!(refused(&file).contains("No such file"));
    assert!(refused(folder.path()).contains("is not a file"));
    fs::write(&file, "").unwrap();
    assert!(refused(&file).contains("it is empty"));
    fs::write(&file, "text".repeat(1_000)).unwrap();
    assert!(refused(&file).contains("damaged or not a database"));
    fs::hard_link(&file, &link).unwrap();
    assert!(refused(&file).contains("hard links"));
}
