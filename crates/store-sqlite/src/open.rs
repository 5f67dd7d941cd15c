//! Opens the file: the reasons to refuse it, and the settings of a connection, each of which is read back.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags};

/// Marks a file as ours (`PRAGMA application_id`): "TskQ".
pub(crate) const APPLICATION_ID: i32 = 0x5473_6b51;

/// The time that a statement waits for another process that has locked the database: less than the 5 s that a caller waits
/// (docs/reference/http-api.md §12), so that callers get the error and not a timeout.
const BUSY_TIMEOUT: Duration = Duration::from_secs(4);
/// Page cache of the writer. The narrow table and the upper levels of the indexes stay in it. A page of 4 KiB takes 5 KiB of
/// memory with SQLite's overhead: 16 MiB in all.
const WRITER_CACHE_KIB: i64 = 13_000;
/// Page cache of each reader.
const READER_CACHE_KIB: i64 = 4_096;
/// Page cache of each long read: there may be many, and a scan reads a page once.
const LONG_READER_CACHE_KIB: i64 = 512;
/// Cache of prepared statements per connection; there are fewer.
const STATEMENTS: usize = 128;

/// The reason why a database file was not opened. Each message is one line that says what to do.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("{} is in use by another server; stop it or choose another --database", .0.display())]
    Owned(PathBuf),
    /// It is a directory or a device.
    #[error("{} is not a file; choose another --database", .0.display())]
    NotAFile(PathBuf),
    /// It has several names, under which several servers could open it.
    #[error("{} has hard links, under which another server could open it; remove them", .0.display())]
    HardLinked(PathBuf),
    /// It cannot be created, read or written.
    #[error("cannot open {}: {}", .0.display(), .1)]
    Unusable(PathBuf, String),
    #[error("{} is a database of another program; choose another --database", .0.display())]
    Foreign(PathBuf),
    #[error("{} was written by a newer taskqueue ({}); upgrade this program", .0.display(), .1)]
    Newer(PathBuf, String),
    /// It has other migrations than this program.
    #[error("{} has an unknown schema ({}); use the taskqueue that wrote it", .0.display(), .1)]
    Changed(PathBuf, String),
    #[error("{} is damaged or not a database ({}); restore it from a backup", .0.display(), .1)]
    Damaged(PathBuf, String),
}

impl OpenError {
    pub(crate) fn unusable(path: &Path, error: &io::Error) -> Self {
        Self::Unusable(path.into(), error.to_string())
    }

    pub(crate) fn of_sqlite(path: &Path, error: &rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => Self::Damaged(path.into(), error.to_string()),
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Self::Owned(path.into()),
            _ => Self::Unusable(path.into(), error.to_string()),
        }
    }
}

/// A connection that does not change the file, which may belong to another program.
pub(crate) fn unrecognised(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    connect(path, flags, WRITER_CACHE_KIB)
}

pub(crate) fn writer(path: &Path) -> rusqlite::Result<Connection> {
    let connection = unrecognised(path)?;
    set(&connection, "journal_mode", "wal", "wal")?;
    // Every commit is synced before it is answered.
    set(&connection, "synchronous", "FULL", "2")?;
    // The checkpointer does it outside of commits.
    set(&connection, "wal_autocheckpoint", "0", "0")?;
    Ok(connection)
}

/// Checks that a commit reaches the disk, by making one: it increments `user_version`, which is not used otherwise.
pub(crate) fn prove_writable(connection: &Connection) -> rusqlite::Result<()> {
    let version: i32 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    connection.pragma_update(None, "user_version", version.checked_add(1).unwrap_or(0))
}

pub(crate) fn reader(path: &Path) -> rusqlite::Result<Connection> {
    read_only(path, READER_CACHE_KIB)
}

pub(crate) fn long_reader(path: &Path) -> rusqlite::Result<Connection> {
    read_only(path, LONG_READER_CACHE_KIB)
}

fn read_only(path: &Path, cache_kib: i64) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = connect(path, flags, cache_kib)?;
    open_log(&connection)?;
    Ok(connection)
}

/// A connection to a file that nobody writes to, by its URI: without locks, a log or a right to write.
pub(crate) fn unchanging(uri: &str) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_URI;
    connect(Path::new(uri), flags, LONG_READER_CACHE_KIB)
}

/// The connection that writes a copy into an empty file. Nobody else knows the file, and whoever made it syncs it at the end.
pub(crate) fn copy_target(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let connection = connect(path, flags, LONG_READER_CACHE_KIB)?;
    set(&connection, "journal_mode", "off", "off")?;
    set(&connection, "synchronous", "OFF", "0")?;
    Ok(connection)
}

/// The checkpointer's connection, which only copies pages from the log to the file.
pub(crate) fn checkpointer(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = connect(path, flags, READER_CACHE_KIB)?;
    set(&connection, "synchronous", "FULL", "2")?;
    open_log(&connection)?;
    Ok(connection)
}

/// Opens the log now. SQLite would do it with the first read, when another file may be in its place.
fn open_log(connection: &Connection) -> rusqlite::Result<()> {
    connection.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))
}

fn connect(path: &Path, flags: OpenFlags, cache_kib: i64) -> rusqlite::Result<Connection> {
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    // Plans must not depend on bound values: otherwise SQLite prepares a join again whenever values are bound.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    // A log that may be the only complete copy must survive every way to end (decision 0020).
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    connection.pragma_update(None, "cache_size", -cache_kib)?;
    connection.pragma_update(None, "temp_store", "memory")?;
    Ok(connection)
}

/// Sets a PRAGMA and reads it back: SQLite ignores invalid values.
fn set(connection: &Connection, pragma: &str, value: &str, expected: &str) -> rusqlite::Result<()> {
    connection.pragma_update_and_check(None, pragma, value, |_| Ok(())).or_else(|error| match error {
        rusqlite::Error::QueryReturnedNoRows => Ok(()),
        other => Err(other),
    })?;
    let actual = connection.pragma_query_value(None, pragma, |row| {
        row.get::<_, rusqlite::types::Value>(0).map(|value| match value {
            rusqlite::types::Value::Integer(number) => number.to_string(),
            rusqlite::types::Value::Text(text) => text,
            other => format!("{other:?}"),
        })
    })?;
    if actual == expected { Ok(()) } else { Err(rusqlite::Error::InvalidParameterName(format!("{pragma}={actual}"))) }
}
