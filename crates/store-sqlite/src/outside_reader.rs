//! Reads a database file that another process, a server, may own and write meanwhile: for `backup` and `check`. Nothing is ever
//! written: no page, no checkpoint, no file is created or removed beside a running server's (docs/decisions/0056).
//!
//! A file with a log beside it is opened as a second process of SQLite's: one read transaction sees one moment, whatever is
//! written meanwhile. A file without a log belongs to nobody now. It is read as one that cannot change, which needs no lock and
//! no right to write, and works on a read-only mount; if a server was started meanwhile, what was read is thrown away.

use std::ffi::OsStr;
use std::fmt::Write;
use std::fs::Metadata;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rusqlite::Connection;

use crate::open::{self, OpenError};
use crate::ownership::{DatabaseFile, path_of};

/// The number of times that a file without a log is read because a server was started on it. Once is enough, unless servers come
/// and go.
const ATTEMPTS: usize = 3;

/// A connection with a snapshot.
pub(crate) struct OutsideReader {
    pub(crate) connection: Connection,
    pub(crate) path: PathBuf,
    /// The state of the file when it had no log.
    state: Option<FileState>,
}

/// The metadata that change when a file is written to or replaced.
type FileState = ([u64; 3], [i64; 4]);

fn file_state(found: &Metadata) -> FileState {
    let times = [found.mtime(), found.mtime_nsec(), found.ctime(), found.ctime_nsec()];
    ([found.dev(), found.ino(), found.size()], times)
}

/// Passes a snapshot of the file to `work`, a second time if a server was started on it meanwhile.
pub(crate) fn read<T, E: From<OpenError>>(
    path: &Path,
    mut work: impl FnMut(&mut OutsideReader) -> Result<T, E>,
) -> Result<T, E> {
    for _ in 0..ATTEMPTS {
        let mut reader = OutsideReader::open(path)?;
        let done = work(&mut reader);
        // Also an error may come from pages of two moments.
        if reader.is_of_one_moment() {
            return done;
        }
    }
    Err(OpenError::Unusable(path.into(), "servers are started and stopped on it; try again".into()).into())
}

impl OutsideReader {
    fn open(path: &Path) -> Result<Self, OpenError> {
        let unusable = |error: std::io::Error| OpenError::unusable(path, &error);
        let found = std::fs::metadata(path).map_err(unusable)?;
        if !found.is_file() {
            return Err(OpenError::NotAFile(path.into()));
        }
        // Its log may have the other name.
        if found.nlink() > 1 {
            return Err(OpenError::HardLinked(path.into()));
        }
        if found.size() == 0 {
            return Err(OpenError::Unusable(path.into(), "it is empty".into()));
        }
        let path = path.canonicalize().map_err(unusable)?;
        let failed = |error: rusqlite::Error| OpenError::of_sqlite(&path, &error);
        let state = (!has_log(&path)).then(|| file_state(&found));
        let opened = match state {
            Some(_) => open::unchanging(&uri(path.as_os_str())),
            None => open::long_reader(&path),
        };
        let connection = opened.map_err(failed)?;
        connection.execute_batch("BEGIN; SELECT count(*) FROM sqlite_schema").map_err(failed)?;
        Ok(Self { connection, path, state })
    }

    /// Returns whether everything that was read is of the moment at which it was opened.
    fn is_of_one_moment(&self) -> bool {
        let Some(state) = &self.state else { return true };
        !has_log(&self.path) && std::fs::metadata(&self.path).is_ok_and(|now| file_state(&now) == *state)
    }

    /// The size of the log, which cannot be reused while this snapshot is read.
    pub(crate) fn log_bytes(&self) -> u64 {
        std::fs::metadata(path_of(&self.path, DatabaseFile::Log)).map_or(0, |log| log.len())
    }
}

fn has_log(path: &Path) -> bool {
    std::fs::symlink_metadata(path_of(path, DatabaseFile::Log)).is_ok()
}

/// The name under which SQLite takes a file for one that nobody changes.
fn uri(path: &OsStr) -> String {
    let mut uri = "file:".to_owned();
    for byte in path.as_bytes() {
        match byte {
            b'/' | b'.' | b'_' | b'-' | b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' => uri.push(char::from(*byte)),
            // Writing to a string does not fail.
            other => write!(uri, "%{other:02X}").unwrap_or_default(),
        }
    }
    uri + "?immutable=1"
}

/// A file is read as of one moment, and nothing beside it is created, changed or removed.
#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::Arc;

    use taskqueue_store::StoreExt;
    use taskqueue_store::clock::SystemClock;
    use taskqueue_store::conformance::commands::create_queue;

    use super::*;
    use crate::{Options, SqliteStore};

    fn open_store(file: &Path) -> SqliteStore {
        SqliteStore::open(file, Arc::new(SystemClock::default()), &Options::default()).unwrap()
    }

    fn queues(reader: &mut OutsideReader) -> Result<i64, OpenError> {
        let count = reader.connection.query_row("SELECT count(*) FROM queues", [], |row| row.get(0));
        count.map_err(|error| OpenError::of_sqlite(&reader.path, &error))
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
}
