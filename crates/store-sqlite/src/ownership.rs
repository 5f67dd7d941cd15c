//! Who owns the file: exactly one process. An operating-system lock on a neighbour file (`<database>-lock`) keeps a
//! second server out, and the identity of the file is watched, because a file that was moved away takes writes that
//! nobody will find again. The lock is not on the database itself: some systems mix it up with SQLite's own locks.

use std::fs::{File, Metadata, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::open::OpenError;

/// Ownership of a database file, held until dropped.
pub(crate) struct Ownership {
    path: PathBuf,
    lock_path: PathBuf,
    /// Device and inode of the file and of its lock when they were opened.
    identities: [(u64, u64); 2],
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
        // A second name leads to the same file but to another lock.
        if metadata.nlink() > 1 {
            return Err(OpenError::HardLinked(path.into()));
        }
        // One name for the file, however it was spelled, so that its lock has one name too.
        let path = path.canonicalize().map_err(unusable)?;
        let mut lock_path = path.clone().into_os_string();
        lock_path.push("-lock");
        let lock_path = PathBuf::from(lock_path);
        let lock = OpenOptions::new().write(true).create(true).truncate(false).open(&lock_path).map_err(unusable)?;
        let identities = [identity(&metadata), identity(&lock.metadata().map_err(unusable)?)];
        match lock.try_lock() {
            Ok(()) => Ok(Self { path, lock_path, identities, _lock: lock }),
            Err(TryLockError::WouldBlock) => Err(OpenError::Owned(path)),
            Err(TryLockError::Error(error)) => Err(unusable(error)),
        }
    }

    /// The one name of the file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the paths still lead to the file and the lock that were opened. Whoever removes the lock lets another
    /// server in, so it ends the ownership as well.
    pub(crate) fn still_holds(&self) -> bool {
        let is = |path: &Path, opened| std::fs::metadata(path).is_ok_and(|now| identity(&now) == opened);
        is(&self.path, self.identities[0]) && is(&self.lock_path, self.identities[1])
    }
}

/// What tells a file from all others.
fn identity(metadata: &Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}
