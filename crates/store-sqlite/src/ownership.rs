//! Ownership of the database file by one process. Two operating-system locks keep a second server out: one on a separate
//! file (`<database>-lock`), and one on the database itself, which is the same under every name and mount. It also detects
//! files that were moved or removed, because writes to them would be lost.
//!
//! POSIX drops all locks of a process on a file, those of SQLite included, as soon as it closes any descriptor of that
//! file. So the descriptor with our lock is opened before those of SQLite and closed after them, and there is no other.

use std::fs::{File, Metadata, OpenOptions, TryLockError};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
#[cfg(test)]
use std::sync::atomic::AtomicU32;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use parking_lot::Mutex;

use crate::open::OpenError;

/// Only the owner may read the files, which hold args, results and errors. SQLite gives its files the same mode.
const MODE: u32 = 0o600;

/// The list of mounted file systems.
const MOUNTS: &str = "/proc/self/mountinfo";

/// File systems whose `flock` is a lock of byte ranges on a server (NFS, SMB, Plan 9, AFS).
const LOCK_MAPPING_TYPES: &[&str] = &["nfs", "nfs4", "cifs", "smb3", "9p", "afs"];

/// The error of a failing disk.
#[cfg(test)]
const EIO: i32 = 5;

/// File systems that give a folder another time whenever a file in it is moved, removed or replaced.
const TIMED_TYPES: &[&str] = &["ext4", "xfs", "f2fs", "tmpfs"];

/// A folder that was changed less than this ago may be changed again without another time: some of them count in seconds.
const FOLDER_SETTLES: Duration = Duration::from_secs(3);

/// For how long its time is believed: another file may be mounted over one in it.
const FOLDER_BELIEVED: Duration = Duration::from_secs(1);

/// Device and inode.
type Identity = (u64, u64);

/// A folder at a moment: moving, removing or replacing a file in it changes its time.
type FolderState = (Identity, SystemTime);

/// A file of the database that was moved, removed or replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DatabaseFile {
    Database,
    Lock,
    /// The write-ahead log.
    Log,
    /// The shared-memory index of the log.
    LogIndex,
}

impl DatabaseFile {
    /// The suffix after the name of the database.
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
    folder: PathBuf,
    /// The opened files, the most important one first.
    watched: Vec<(DatabaseFile, PathBuf, Identity)>,
    /// The folder when all of them were last found in it, and since when: most looks find it unchanged, and look no further.
    found_in: Mutex<Option<(FolderState, Instant)>>,
    /// True if the folder tells whether a file in it is another one.
    is_timed: bool,
    settles: Duration,
    mode: u32,
    /// The type of the file system, if the database itself cannot be locked there.
    unlockable: Option<String>,
    /// Holds the lock on the database. Closed before the other one is given up: nobody else has opened the database then.
    file: Locked,
    _lock: Locked,
    copying_failed: AtomicBool,
    /// The number of syncs of the database that fail from now on.
    #[cfg(test)]
    pub(crate) syncs_to_fail: AtomicU32,
}

impl Ownership {
    /// Takes ownership of the file at `path`, creating it if it does not exist.
    pub(crate) fn take(path: &Path) -> Result<Self, OpenError> {
        let unusable = |error: io::Error| OpenError::unusable(path, &error);
        let metadata = match std::fs::metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                to_lock().open(path).and_then(|file| file.metadata())
            }
            found => found,
        };
        let metadata = metadata.map_err(unusable)?;
        if !metadata.is_file() {
            return Err(OpenError::NotAFile(path.into()));
        }
        // A second name has another log.
        if metadata.nlink() > 1 {
            return Err(OpenError::HardLinked(path.into()));
        }
        // One path for the file, so that its log and its lock have one path too.
        let path = path.canonicalize().map_err(unusable)?;
        let lock = Locked(to_lock().open(path_of(&path, DatabaseFile::Lock)).map_err(unusable)?);
        lock_exclusively(&lock.0, &path)?;
        // Only with the first lock: if this process already owns the file, closing it here would drop the owner's locks.
        let file = Locked(to_lock().open(&path).map_err(unusable)?);
        let metadata = file.0.metadata().map_err(unusable)?;
        let unlockable = lock_mapping_type(metadata.dev());
        let is_timed = file_system_of(metadata.dev()).is_some_and(|kind| TIMED_TYPES.contains(&kind.as_str()));
        if unlockable.is_none() {
            lock_exclusively(&file.0, &path)?;
        }
        let watched = vec![
            (DatabaseFile::Database, path.clone(), identity(&metadata)),
            (DatabaseFile::Lock, path_of(&path, DatabaseFile::Lock), identity(&lock.0.metadata().map_err(unusable)?)),
        ];
        Ok(Self {
            folder: path.parent().map(Path::to_owned).unwrap_or_default(),
            path,
            watched,
            found_in: Mutex::default(),
            is_timed,
            settles: FOLDER_SETTLES,
            mode: metadata.mode() & 0o777,
            unlockable,
            file,
            _lock: lock,
            copying_failed: AtomicBool::new(false),
            #[cfg(test)]
            syncs_to_fail: AtomicU32::new(0),
        })
    }

    /// Watches the files of the log too. A connection must have opened them.
    pub(crate) fn watch_log(&mut self) -> Result<(), OpenError> {
        // Before the lock file: a lost log is more important.
        for (index, lost) in [(1, DatabaseFile::Log), (2, DatabaseFile::LogIndex)] {
            let path = path_of(&self.path, lost);
            let found = std::fs::metadata(&path).map_err(|error| OpenError::unusable(&self.path, &error))?;
            self.watched.insert(index, (lost, path, identity(&found)));
        }
        Ok(())
    }

    /// Logs what is less safe than it could be. The mode of the file may be intended, so it is not changed.
    pub(crate) fn warn(&self) {
        let (path, mode) = (self.path.display(), format!("{:o}", self.mode));
        if self.mode & 0o077 != 0 {
            tracing::warn!(
                mode,
                "other users of this machine can open the database; to prevent that run: chmod 600 {path}*"
            );
        }
        if let Some(kind) = &self.unlockable {
            tracing::warn!(
                kind,
                "{path} lies on a network file system: a second server is kept out only by {path}-lock"
            );
        }
    }

    /// The canonical path of the database.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The size of the database and its log. Nothing if the file system does not say.
    pub(crate) fn bytes(&self) -> Option<u64> {
        let bytes = |lost| std::fs::metadata(path_of(&self.path, lost)).ok().map(|metadata| metadata.len());
        Some(bytes(DatabaseFile::Database)? + bytes(DatabaseFile::Log)?)
    }

    /// The first file whose path no longer leads to the opened file. Takes a microsecond or two.
    pub(crate) fn lost(&self) -> Option<DatabaseFile> {
        let folder = self.folder_state();
        let believed = *self.found_in.lock();
        if believed.is_some_and(|(found, at)| folder == Some(found) && at.elapsed() < FOLDER_BELIEVED) {
            return None;
        }
        let is_same = |path: &Path, opened| std::fs::metadata(path).is_ok_and(|now| identity(&now) == opened);
        let lost = self.watched.iter().find(|(_, path, opened)| !is_same(path, *opened)).map(|(lost, ..)| *lost);
        let has_settled = |(_, changed): &FolderState| changed.elapsed().is_ok_and(|since| since > self.settles);
        let found = folder.filter(|folder| lost.is_none() && has_settled(folder));
        *self.found_in.lock() = found.map(|folder| (folder, Instant::now()));
        lost
    }

    /// Nothing where the folder does not tell.
    fn folder_state(&self) -> Option<FolderState> {
        let found = self.is_timed.then(|| std::fs::metadata(&self.folder).ok())??;
        let since_1970 = Duration::new(found.ctime().try_into().ok()?, found.ctime_nsec().try_into().ok()?);
        Some((identity(&found), SystemTime::UNIX_EPOCH + since_1970))
    }

    /// Returns whether no file was lost.
    pub(crate) fn is_intact(&self) -> bool {
        self.lost().is_none()
    }

    /// Makes durable what has been written to the database file. After an error nobody knows what got there: the operating
    /// system reports it once, and a second sync would succeed without having written anything.
    pub(crate) fn sync_database(&self) -> bool {
        self.sync().inspect_err(|error| self.give_up_copying(error)).is_ok()
    }

    /// Returns whether pages that were copied from the log may be lost. Then nothing is copied and written any more (decision 0020).
    pub(crate) fn copying_failed(&self) -> bool {
        self.copying_failed.load(Ordering::Acquire)
    }

    /// Ends copying and writing until a restart, which copies the whole log again.
    pub(crate) fn give_up_copying(&self, error: &dyn std::fmt::Display) {
        if !self.copying_failed.swap(true, Ordering::AcqRel) {
            let path = self.path.display();
            tracing::error!(
                %error,
                "{path} could not be synced or read: it is not known what of it is on the disk. Everything that was \
                 acknowledged is in {path}-wal, so keep both files. Writes are refused: check the disk, then start the \
                 server again"
            );
        }
    }

    fn sync(&self) -> io::Result<()> {
        #[cfg(test)]
        if self.syncs_to_fail.try_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok() {
            return Err(io::Error::from_raw_os_error(EIO));
        }
        self.file.0.sync_data()
    }

    /// A path to the opened database, which works as long as this process runs.
    pub(crate) fn descriptor(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.file.0.as_raw_fd())
    }
}

/// The place of a database that may not exist, kept from servers until dropped.
pub(crate) struct ReservedPlace {
    lock: File,
    /// The database that is there.
    file: Option<File>,
    path: PathBuf,
}

impl ReservedPlace {
    /// `path` is in a folder without symbolic links. Neither file may be one: root gives the lock to the owner of the database.
    pub(crate) fn take(path: &Path) -> Result<Self, OpenError> {
        let unusable = |error: io::Error| OpenError::unusable(path, &error);
        let no_link = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();
        let at = path_of(path, DatabaseFile::Lock);
        let lock = to_lock().custom_flags(no_link).open(&at).map_err(|error| OpenError::unusable(&at, &error))?;
        lock_exclusively(&lock, path)?;
        let file = match OpenOptions::new().read(true).custom_flags(no_link).open(path) {
            Ok(file) => Some(file),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(unusable(error)),
        };
        if let Some(file) = &file
            && lock_mapping_type(file.metadata().map_err(unusable)?.dev()).is_none()
        {
            lock_exclusively(file, path)?;
        }
        Ok(Self { lock, file, path: path.to_owned() })
    }

    /// Whose the files here shall be, if this process is root: those of the database that is there, else those of its folder.
    /// Then a server that is not root can open what root restores. The lock is given to them at once.
    pub(crate) fn owner(&self) -> io::Result<Option<(u32, u32)>> {
        let folder = self.path.parent().unwrap_or(Path::new("/"));
        let found = self.file.as_ref().map_or_else(|| std::fs::metadata(folder), File::metadata)?;
        let own = self.lock.metadata()?;
        // Only root can give files away, and only its files need it.
        if !rustix::process::geteuid().is_root() || found.uid() == 0 {
            return Ok(None);
        }
        if own.uid() != found.uid() {
            std::os::unix::fs::fchown(&self.lock, Some(found.uid()), Some(found.gid()))?;
        }
        Ok(Some((found.uid(), found.gid())))
    }
}

/// Returns whether a server owns the file. Never asked of a file that this process has opened with SQLite.
pub(crate) fn is_owned(path: &Path) -> bool {
    let is_locked = |file: File| matches!(file.try_lock(), Err(TryLockError::WouldBlock));
    [DatabaseFile::Database, DatabaseFile::Lock]
        .iter()
        .any(|lost| File::open(path_of(path, *lost)).is_ok_and(is_locked))
}

/// Opens a file to lock it, and creates it if it does not exist.
fn to_lock() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(MODE);
    options
}

/// The path of a file of the database.
pub(crate) fn path_of(path: &Path, lost: DatabaseFile) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(lost.suffix());
    PathBuf::from(name)
}

/// A file with our lock. To close it does not do: a process that begins has a copy of the descriptor until it executes its program.
struct Locked(File);

impl Drop for Locked {
    fn drop(&mut self) {
        let _ = self.0.unlock();
    }
}

fn lock_exclusively(file: &File, path: &Path) -> Result<(), OpenError> {
    file.try_lock().map_err(|error| match error {
        TryLockError::WouldBlock => OpenError::Owned(path.into()),
        TryLockError::Error(error) => OpenError::unusable(path, &error),
    })
}

fn identity(metadata: &Metadata) -> Identity {
    (metadata.dev(), metadata.ino())
}

/// Returns the type of the file system of this device, if it maps both kinds of locks, SQLite's and ours, to one kind, so that our
/// lock would block SQLite.
fn lock_mapping_type(device: u64) -> Option<String> {
    file_system_of(device).filter(|kind| LOCK_MAPPING_TYPES.contains(&kind.as_str()))
}

/// Returns the type of the file system of this device.
fn file_system_of(device: u64) -> Option<String> {
    // Only Linux has this list; other systems are not supported.
    let mounts = std::fs::read_to_string(MOUNTS).ok()?;
    file_system_type(device, &mounts).map(str::to_owned)
}

/// `36 35 98:0 /root /mnt rw,noatime shared:1 - ext4 /dev/sda rw`: the device is third, the type follows the dash.
fn file_system_type(device: u64, mounts: &str) -> Option<&str> {
    // Linux packs both numbers of a device into one.
    let major = ((device >> 8) & 0xfff) | ((device >> 32) & !0xfff);
    let minor = (device & 0xff) | ((device >> 12) & !0xff);
    let number = format!("{major}:{minor}");
    let line = mounts.lines().find(|line| line.split(' ').nth(2) == Some(&number))?;
    line.split_once(" - ")?.1.split(' ').next()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINES: &str = "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n\
        36 22 0:52 / /home rw - nfs4 server:/home rw,vers=4.2\n\
        37 22 259:1048575 / /big rw - xfs /dev/nvme rw\n\
        38 22 0:53 / /mnt/a\\040b rw master:3 - cifs //server/share rw\n";

    #[test]
    fn the_type_of_a_file_system_is_found_by_its_device() {
        let cases = [(0x801, "ext4"), (0x34, "nfs4"), ((0xfff00 << 12) | (259 << 8) | 0xff, "xfs"), (0x35, "cifs")];
        for (device, expected) in cases {
            assert_eq!(file_system_type(device, LINES), Some(expected), "{device:#x}");
        }
        assert_eq!(file_system_type(0x99, LINES), None);
        assert_eq!(file_system_type(0x801, "nonsense\n\n1 2 8:1\n"), None);
    }

    #[test]
    fn a_lost_file_is_found_although_all_were_found_before() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("folder");
        std::fs::create_dir(&folder).unwrap();
        let mut owner = Ownership::take(&folder.join("queue.db")).unwrap();
        // The one of this test counts in some milliseconds.
        (owner.is_timed, owner.settles) = (true, Duration::from_millis(100));
        let find = || {
            while owner.found_in.lock().is_none() {
                assert_eq!(owner.lost(), None)
            }
        };
        for (from, to, lost) in [
            (folder.join("queue.db"), folder.join("other.db"), DatabaseFile::Database),
            (folder.join("queue.db-lock"), parent.path().join("lock"), DatabaseFile::Lock),
            (folder.clone(), parent.path().join("other"), DatabaseFile::Database),
        ] {
            find();
            std::fs::rename(&from, &to).unwrap();
            assert_eq!(owner.lost(), Some(lost), "{from:?}");
            std::fs::rename(&to, &from).unwrap();
            assert_eq!(owner.lost(), None, "{from:?} is back");
        }
        find();
        std::fs::remove_file(folder.join("queue.db")).unwrap();
        File::create(folder.join("queue.db")).unwrap();
        assert_eq!(owner.lost(), Some(DatabaseFile::Database), "another file has its name");
    }

    #[test]
    fn a_file_is_given_up_although_a_process_that_begins_has_its_descriptors() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("queue.db");
        let owner = Ownership::take(&path).unwrap();
        let _copies = [&owner._lock, &owner.file].map(|locked| locked.0.try_clone().unwrap());
        assert!(matches!(Ownership::take(&path), Err(OpenError::Owned(_))));
        drop(owner);
        assert!(Ownership::take(&path).is_ok());
    }

    #[test]
    fn the_file_system_of_this_test_keeps_locks_apart() {
        use std::os::unix::fs::MetadataExt;
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(lock_mapping_type(folder.path().metadata().unwrap().dev()), None);
    }
}
