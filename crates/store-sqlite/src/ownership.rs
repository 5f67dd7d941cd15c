//! Who owns the file: exactly one process. An operating-system lock on a neighbour file (`<database>-lock`) keeps a
//! second server out, and the identity of the file is watched, because a file that was moved away takes writes that
//! nobody will find again. The lock is not on the database itself: some systems mix it up with SQLite's own locks.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::open::OpenError;

/// Ownership of a database file, held until dropped.
pub(crate) struct Ownership {
    path: PathBuf,
    /// Device and inode of the file when it was opened.
    identity: (u64, u64),
    _lock: File,
}

impl Ownership {
    /// Takes ownership of the file at `path`, creating it if it does not exist.
    pub(crate) fn take(path: &Path) -> Result<Self, OpenError> {
        let unusable = |error: io::Error| OpenError::unusable(path, &error);
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path);
        let metadata = file.and_then(|file| file.metadata()).map_err(unusable)?;
        if !metadata.is_file() {
            return Err(OpenError::NotAFile(path.into()));
        }
        // One name for the file, however it was spelled, so that its lock has one name too.
        let path = path.canonicalize().map_err(unusable)?;
        let mut lock_path = path.clone().into_os_string();
        lock_path.push("-lock");
        let lock = OpenOptions::new().write(true).create(true).truncate(false).open(lock_path).map_err(unusable)?;
        match lock.try_lock() {
            Ok(()) => Ok(Self { path, identity: (metadata.dev(), metadata.ino()), _lock: lock }),
            Err(TryLockError::WouldBlock) => Err(OpenError::Owned(path)),
            Err(TryLockError::Error(error)) => Err(unusable(error)),
        }
    }

    /// The one name of the file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the path still leads to the file that was opened.
    pub(crate) fn still_holds(&self) -> bool {
        std::fs::metadata(&self.path).is_ok_and(|now| (now.dev(), now.ino()) == self.identity)
    }
}
