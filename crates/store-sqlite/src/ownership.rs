//! Who owns the file: exactly one process. Two operating-system locks keep a second server out: one on a neighbour file
//! (`<database>-lock`), and one on the database itself, which is the same under every name and every mount of it.
//! The files are watched too: what is written to a file that was moved away or removed, nobody will find again.
//!
//! POSIX drops all locks of a process on a file, those of SQLite included, as soon as it closes any descriptor of that
//! file. So the descriptor that holds our lock is opened before SQLite's and closed after them, and nobody else opens it.

use std::fs::{File, Metadata, OpenOptions, TryLockError};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::mounts;
use crate::open::OpenError;

/// Files hold args, results and errors of everybody's tasks: for their owner only. SQLite gives its files the same mode.
const MODE: u32 = 0o600;

/// Device and inode: what tells a file from all others.
type Identity = (u64, u64);

/// A file of the database that is not where it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lost {
    /// The database itself.
    Database,
    /// The lock beside it.
    Lock,
    /// The write-ahead log.
    Log,
    /// The index of the log, which all connections share.
    LogIndex,
}

impl Lost {
    /// What is added to the name of the database.
    pub(crate) fn suffix(self) -> &'static str {
        match self {
            Self::Database => "",
            Self::Lock => "-lock",
            Self::Log => "-wal",
            Self::LogIndex => "-shm",
        }
    }
}

/// Ownership of a database file, held until dropped. Every connection to the file must be closed by then.
pub(crate) struct Ownership {
    path: PathBuf,
    /// The files that were opened, the most important one first.
    watched: Vec<(Lost, PathBuf, Identity)>,
    mode: u32,
    /// The kind of a file system on which the database itself cannot be locked.
    mixing: Option<String>,
    _lock: File,
    /// Has the lock on the database itself.
    file: File,
}

impl Ownership {
    /// Takes ownership of the file at `path`, creating it if it does not exist.
    pub(crate) fn take(path: &Path) -> Result<Self, OpenError> {
        let unusable = |error: io::Error| OpenError::unusable(path, &error);
        let metadata = match std::fs::metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => open(path).and_then(|file| file.metadata()),
            found => found,
        };
        let metadata = metadata.map_err(unusable)?;
        if !metadata.is_file() {
            return Err(OpenError::NotAFile(path.into()));
        }
        // A second name leads to the same file but to another log.
        if metadata.nlink() > 1 {
            return Err(OpenError::HardLinked(path.into()));
        }
        // One name for the file, however it was spelled, so that the files beside it have one name too.
        let path = path.canonicalize().map_err(unusable)?;
        let lock = open(&beside(&path, Lost::Lock)).map_err(unusable)?;
        lock_alone(&lock, &path)?;
        // Not before the other lock is ours: within one process, closing it again would cost a first owner its locks.
        let file = open(&path).map_err(unusable)?;
        let metadata = file.metadata().map_err(unusable)?;
        let mixing = mounts::mixing_locks(metadata.dev());
        if mixing.is_none() {
            lock_alone(&file, &path)?;
        }
        let watched = vec![
            (Lost::Database, path.clone(), identity(&metadata)),
            (Lost::Lock, beside(&path, Lost::Lock), identity(&lock.metadata().map_err(unusable)?)),
        ];
        Ok(Self { path, watched, mode: metadata.mode() & 0o777, mixing, _lock: lock, file })
    }

    /// Watches the files of the log too. A connection must have them open, so that they are SQLite's.
    pub(crate) fn watch_log(&mut self) -> Result<(), OpenError> {
        // Before the lock: of several that are missing, what is to be done about the log counts most.
        for (place, lost) in [(1, Lost::Log), (2, Lost::LogIndex)] {
            let path = beside(&self.path, lost);
            let found = std::fs::metadata(&path).map_err(|error| OpenError::unusable(&self.path, &error))?;
            self.watched.insert(place, (lost, path, identity(&found)));
        }
        Ok(())
    }

    /// Says in the log what is not as safe as it could be. Whoever made the file may have meant its mode, so it is left
    /// as it is.
    pub(crate) fn warn(&self) {
        let (path, mode) = (self.path.display(), format!("{:o}", self.mode));
        if self.mode & 0o077 != 0 {
            tracing::warn!(
                mode,
                "others on this machine may open the database; unless that is meant: chmod 600 {path}*"
            );
        }
        if let Some(kind) = &self.mixing {
            tracing::warn!(
                kind,
                "{path} lies on a network file system: a second server is kept out only by {path}-lock"
            );
        }
    }

    /// The one name of the file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The first file whose path does not lead to what was opened any more. One look costs some microseconds.
    pub(crate) fn lost(&self) -> Option<Lost> {
        let is_there = |path: &Path, opened| std::fs::metadata(path).is_ok_and(|now| identity(&now) == opened);
        self.watched.iter().find(|(_, path, opened)| !is_there(path, *opened)).map(|(lost, ..)| *lost)
    }

    /// Whether all files are where they were.
    pub(crate) fn still_holds(&self) -> bool {
        self.lost().is_none()
    }

    /// Where the database can be read as long as this process lives, whatever became of its name.
    pub(crate) fn descriptor(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.file.as_raw_fd())
    }
}

/// Opens a file to lock it, and makes it if it is not there. One that is there keeps its mode.
fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(MODE).open(path)
}

/// The path of a file beside the database.
pub(crate) fn beside(path: &Path, lost: Lost) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(lost.suffix());
    PathBuf::from(name)
}

fn lock_alone(file: &File, path: &Path) -> Result<(), OpenError> {
    file.try_lock().map_err(|error| match error {
        TryLockError::WouldBlock => OpenError::Owned(path.into()),
        TryLockError::Error(error) => OpenError::unusable(path, &error),
    })
}

fn identity(metadata: &Metadata) -> Identity {
    (metadata.dev(), metadata.ino())
}
