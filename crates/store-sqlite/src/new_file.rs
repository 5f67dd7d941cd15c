//! A file that is written under another name beside its place and takes its place when it is whole and on the disk: somebody who
//! kills the program, or a full disk, leaves what was there before. What a killed program left is removed by the next one: it is
//! known by its suffix and by not being locked.

use std::ffi::OsString;
use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags, renameat_with};

/// Behind the name of what is being written.
pub const SUFFIX: &str = ".taskqueue-partial";

/// Only the owner may read the copy, which holds what the database holds.
const MODE: u32 = 0o600;

/// Removed when dropped, unless it has taken its place.
pub struct NewFile {
    /// The place where it will be.
    pub(crate) place: PathBuf,
    /// Where it is until then.
    pub(crate) path: PathBuf,
    /// Locked, so that others see that it is being written.
    file: File,
    placed: bool,
}

impl NewFile {
    /// Begins a file for this place, whose folder must exist.
    pub fn begin(place: &Path) -> io::Result<Self> {
        let (folder, name) = split(place)?;
        let mut partial = name.clone();
        partial.push(SUFFIX);
        let path = folder.join(partial);
        let file = OpenOptions::new().read(true).write(true).create_new(true).mode(MODE).open(&path);
        let file = file.map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => io::Error::other(format!(
                "{} is being written, or was left by a command that was killed and cannot be removed; remove it if no other \
                 command runs",
                path.display()
            )),
            _ => error,
        })?;
        let new = Self { place: folder.join(name), path, file, placed: false };
        take_lock(&new.file, &new.path)?;
        Ok(new)
    }

    pub fn file(&self) -> &File {
        &self.file
    }

    /// Returns whether its path still leads to it.
    pub(crate) fn is_intact(&self) -> bool {
        leads_to(&self.path, &self.file)
    }

    /// Syncs the file and puts it in its place. With `replace`, what is there is replaced; else nothing may be there.
    pub fn put_in_place(mut self, replace: bool) -> io::Result<()> {
        self.file.sync_all()?;
        if !self.is_intact() {
            return Err(io::Error::other(format!("{} was replaced", self.path.display())));
        }
        if replace {
            std::fs::rename(&self.path, &self.place)?;
        } else {
            // Fails if somebody has put another file there meanwhile, where renaming would replace it.
            renameat_with(CWD, &self.path, CWD, &self.place, RenameFlags::NOREPLACE)?;
        }
        self.placed = true;
        sync_folder(&self.place)
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if !self.placed && self.is_intact() {
            // Nothing else can be done; the next one removes it.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Locks the file or folder that was opened at this path, so that others see that it is being written.
pub fn take_lock(opened: &File, path: &Path) -> io::Result<()> {
    match opened.try_lock() {
        Ok(()) if leads_to(path, opened) => Ok(()),
        // Somebody took it for a leftover in between.
        Ok(()) | Err(TryLockError::WouldBlock) => Err(io::Error::other("another program writes it; try again")),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Returns whether the path still leads to what was opened there.
pub fn leads_to(path: &Path, opened: &File) -> bool {
    let Ok(opened) = opened.metadata() else { return false };
    let found = std::fs::symlink_metadata(path);
    found.is_ok_and(|found| (found.dev(), found.ino()) == (opened.dev(), opened.ino()))
}

/// Makes durable what was renamed or removed in the folder of a file.
pub fn sync_folder(file: &Path) -> io::Result<()> {
    File::open(split(file)?.0)?.sync_all()
}

/// The folder, without symbolic links, and the name of a file that need not exist.
pub(crate) fn split(file: &Path) -> io::Result<(PathBuf, OsString)> {
    let name = file.file_name().ok_or_else(|| io::Error::other("it is not the name of a file"))?;
    let folder = match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    Ok((folder.canonicalize()?, name.to_owned()))
}

/// Removes what killed programs left in the folder of a file: files with our suffix that nobody has locked. Each is told to
/// `removed`. What cannot be removed is left: it harms nobody.
pub fn remove_leftovers(file: &Path, removed: &mut dyn FnMut(&Path)) {
    let Ok((folder, _)) = split(file) else { return };
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let is_ours = entry.file_name().to_string_lossy().ends_with(SUFFIX);
        if !is_ours || !entry.file_type().is_ok_and(|kind| kind.is_file()) {
            continue;
        }
        let path = entry.path();
        let opened = OpenOptions::new().read(true).custom_flags(O_NOFOLLOW).open(&path);
        if opened.is_ok_and(|file| file.try_lock().is_ok()) && std::fs::remove_file(&path).is_ok() {
            removed(&path);
        }
    }
}

/// Of `open(2)` on Linux: fails on a symbolic link.
const O_NOFOLLOW: i32 = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();

/// A file appears whole or not at all, and what others left is removed only if nobody writes it.
#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<String> =
            fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_takes_its_place_when_it_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("copy.db");
        let new = NewFile::begin(&place).unwrap();
        new.file().write_all(b"new").unwrap();
        assert_eq!(names(folder.path()), ["copy.db.taskqueue-partial"]);
        new.put_in_place(false).unwrap();
        assert_eq!(fs::read(&place).unwrap(), b"new");
        assert_eq!(fs::metadata(&place).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(names(folder.path()), ["copy.db"]);
    }

    #[test]
    fn what_is_there_is_replaced_only_if_that_is_wanted() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("copy.db");
        let new = NewFile::begin(&place).unwrap();
        fs::write(&place, "there").unwrap();
        assert_eq!(new.put_in_place(false).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!((fs::read(&place).unwrap(), names(folder.path())), (b"there".to_vec(), vec!["copy.db".to_owned()]));
        NewFile::begin(&place).unwrap().put_in_place(true).unwrap();
        assert_eq!((fs::read(&place).unwrap(), names(folder.path())), (Vec::new(), vec!["copy.db".to_owned()]));
    }

    #[test]
    fn what_is_given_up_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        drop(NewFile::begin(&folder.path().join("copy.db")).unwrap());
        assert_eq!(names(folder.path()), Vec::<String>::new());
    }

    #[test]
    fn what_a_killed_program_left_is_removed_and_what_another_one_writes_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let left = folder.path().join("monday.db.taskqueue-partial");
        fs::write(&left, "half").unwrap();
        let mut removed = Vec::new();
        remove_leftovers(&folder.path().join("tuesday.db"), &mut |path| removed.push(path.to_owned()));
        assert_eq!(removed, [folder.path().canonicalize().unwrap().join("monday.db.taskqueue-partial")]);
        let written = NewFile::begin(&folder.path().join("tuesday.db")).unwrap();
        remove_leftovers(&folder.path().join("wednesday.db"), &mut |path| panic!("{path:?} is being written"));
        let other = NewFile::begin(&folder.path().join("wednesday.db")).unwrap();
        assert_eq!(names(folder.path()), ["tuesday.db.taskqueue-partial", "wednesday.db.taskqueue-partial"]);
        let refused = NewFile::begin(&folder.path().join("tuesday.db")).err().unwrap();
        assert!(refused.to_string().contains("is being written"), "{refused}");
        written.put_in_place(false).unwrap();
        other.put_in_place(false).unwrap();
        assert_eq!(names(folder.path()), ["tuesday.db", "wednesday.db"]);
    }

    #[test]
    fn a_file_that_somebody_put_in_the_way_is_neither_used_nor_removed() {
        let folder = tempfile::tempdir().unwrap();
        let (place, other) = (folder.path().join("copy.db"), folder.path().join("other"));
        fs::write(&other, "of somebody").unwrap();
        let new = NewFile::begin(&place).unwrap();
        fs::remove_file(&new.path).unwrap();
        std::os::unix::fs::symlink(&other, &new.path).unwrap();
        assert!(new.put_in_place(false).is_err());
        assert_eq!(fs::read(&other).unwrap(), b"of somebody");
        assert!(NewFile::begin(&place).is_err(), "a symbolic link is not followed");
        assert_eq!(fs::read(&other).unwrap(), b"of somebody");
    }
}
