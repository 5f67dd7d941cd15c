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
use crate::ownership::{Lost, path_of};

/// How often a file without a log is read again because a server was started on it. Once is enough, unless servers come and go.
const ATTEMPTS: usize = 3;

/// A connection with a snapshot.
pub(crate) struct OutsideReader {
    pub(crate) connection: Connection,
    path: PathBuf,
    /// How the file was when it had no log.
    state: Option<FileState>,
}

/// What changes when a file is written to or replaced.
#[derive(Debug, PartialEq, Eq)]
struct FileState([i64; 5], [u64; 2]);

impl FileState {
    fn of(found: &Metadata) -> Self {
        let times = [found.mtime(), found.mtime_nsec(), found.ctime(), found.ctime_nsec()];
        let size = i64::try_from(found.size()).unwrap_or(i64::MAX);
        Self([size, times[0], times[1], times[2], times[3]], [found.dev(), found.ino()])
    }
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
        let state = (!has_log(&path)).then(|| FileState::of(&found));
        let opened = match state {
            Some(_) => open::unchanging(&uri(path.as_os_str())),
            None => open::long_reader(&path),
        };
        let connection = opened.map_err(failed)?;
        let reader = Self { connection, path, state };
        reader
            .connection
            .execute_batch("BEGIN; SELECT count(*) FROM sqlite_schema")
            .map_err(|error| OpenError::of_sqlite(&reader.path, &error))?;
        Ok(reader)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether everything that was read is of the moment at which it was opened.
    fn is_of_one_moment(&self) -> bool {
        let Some(state) = &self.state else { return true };
        !has_log(&self.path) && std::fs::metadata(&self.path).is_ok_and(|now| FileState::of(&now) == *state)
    }

    /// The size of the log, which cannot be reused while this snapshot is read.
    pub(crate) fn log_bytes(&self) -> u64 {
        std::fs::metadata(path_of(&self.path, Lost::Log)).map_or(0, |log| log.len())
    }
}

fn has_log(path: &Path) -> bool {
    std::fs::symlink_metadata(path_of(path, Lost::Log)).is_ok()
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

#[cfg(test)]
#[path = "outside_reader_tests.rs"]
mod tests;
