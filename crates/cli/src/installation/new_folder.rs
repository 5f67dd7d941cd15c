//! The folder of a backup with secrets, while it is written: under another name beside its place, for its owner only. It gets its
//! name when it is whole, as a file does (`new_file.rs` of the SQLite backend). What a killed command left is removed by the next.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use taskqueue_store_sqlite::new_file::{SUFFIX, leads_to, sync_folder, take_lock};

use super::manifest::FILE_NAME;
use super::{Manifest, Part};
use crate::failure::Failure;
use crate::output::warning;

/// Removed when dropped, unless it has taken its place.
pub(crate) struct NewFolder {
    place: PathBuf,
    path: PathBuf,
    /// Locked, so that others see that it is being written.
    lock: File,
    placed: bool,
}

impl NewFolder {
    /// Begins a folder for this place. With `replace`, a backup that is there will be replaced. `removed` is told of what a killed
    /// command had left.
    pub(crate) fn begin(place: &Path, replace: bool, removed: &mut dyn FnMut(&Path)) -> Result<Self, Failure> {
        let cannot_write = |error: io::Error| cannot_write(place, &error);
        let name = place.file_name().ok_or_else(|| cannot_write(io::Error::other("it is not the name of a folder")))?;
        let parent = place.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let parent = parent.canonicalize().map_err(cannot_write)?;
        let place = parent.join(name);
        check_place(&place, replace)?;
        let mut partial = name.to_owned();
        partial.push(SUFFIX);
        let path = parent.join(partial);
        remove_leftover(&path, removed).map_err(cannot_write)?;
        DirBuilder::new().mode(0o700).create(&path).map_err(cannot_write)?;
        let lock = File::open(&path).map_err(cannot_write)?;
        take_lock(&lock, &path).map_err(cannot_write)?;
        Ok(Self { place, path, lock, placed: false })
    }

    /// Where it is until it takes its place.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Where it will be, in a folder without symbolic links.
    pub(crate) fn place(&self) -> &Path {
        &self.place
    }

    /// Adds a file that only its owner can read.
    pub(crate) fn write(&self, name: &str, content: &[u8]) -> Result<(), Failure> {
        let written = (|| {
            let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(self.path.join(name))?;
            file.write_all(content)?;
            file.sync_all()
        })();
        written.map_err(|error| cannot_write(&self.place.join(name), &error))
    }

    /// Syncs the folder and gives it its name.
    pub(crate) fn put_in_place(mut self, replace: bool) -> Result<(), Failure> {
        let place = self.place.clone();
        let unwritable = |error: io::Error| cannot_write(&place, &error);
        self.lock.sync_all().map_err(unwritable)?;
        if !leads_to(&self.path, &self.lock) {
            return Err(unwritable(io::Error::other(format!("{} was replaced", self.path.display()))));
        }
        match renameat_with(CWD, &self.path, CWD, &place, RenameFlags::NOREPLACE) {
            Err(rustix::io::Errno::EXIST) if replace => {
                // The copy took its time, and somebody may have put something else there.
                check_place(&place, true)?;
                // In one step, so that there is always a backup of this name.
                renameat_with(CWD, &self.path, CWD, &place, RenameFlags::EXCHANGE)
                    .map_err(|error| unwritable(error.into()))?;
                self.placed = true;
                // The new backup is there all the same.
                if let Err(error) = fs::remove_dir_all(&self.path) {
                    let old = self.path.display();
                    warning(&format!(
                        "cannot remove the old backup, now {old}, which holds secrets: {error}; remove it"
                    ));
                }
            }
            renamed => renamed.map_err(|error| unwritable(error.into()))?,
        }
        self.placed = true;
        sync_folder(&place).map_err(unwritable)
    }
}

impl Drop for NewFolder {
    fn drop(&mut self) {
        if !self.placed && leads_to(&self.path, &self.lock) {
            // Nothing else can be done; the next one removes it.
            drop(fs::remove_dir_all(&self.path));
        }
    }
}

/// Refuses a place at which something would be lost that is no backup.
fn check_place(place: &Path, replace: bool) -> Result<(), Failure> {
    let shown = place.display();
    let Ok(found) = fs::symlink_metadata(place) else { return Ok(()) };
    let refused = |why: String| Err(Failure::Refused(why));
    if found.is_symlink() {
        return refused(format!("{shown} is a symbolic link; name the folder itself"));
    }
    if !found.is_dir() {
        return refused(format!("{shown} is not a folder, which --with-secrets makes; choose another --to"));
    }
    if !replace {
        return refused(format!("{shown} exists; choose another --to, or replace it with --replace"));
    }
    if Manifest::read(place).is_err() {
        return refused(format!("{shown} is not a backup with secrets, so it is not replaced; choose another --to"));
    }
    let entries = fs::read_dir(place).map_err(|error| Failure::cannot_read(&shown, error))?;
    for entry in entries.flatten() {
        let name = entry.file_name();
        // Also the log of a database that a server was started on.
        if name != FILE_NAME && !Part::ALL.iter().any(|part| name == part.file_name()) {
            let other = Path::new(&name).display();
            return refused(format!("{shown} holds {other}, which no backup made, so it is not replaced"));
        }
    }
    Ok(())
}

/// Removes a folder that a killed command left, unless another one is writing it.
fn remove_leftover(path: &Path, removed: &mut dyn FnMut(&Path)) -> io::Result<()> {
    if !fs::symlink_metadata(path).is_ok_and(|found| found.is_dir()) {
        return Ok(());
    }
    // Held until it is removed.
    let leftover = File::open(path)?;
    take_lock(&leftover, path)?;
    fs::remove_dir_all(path)?;
    drop(leftover);
    removed(path);
    Ok(())
}

fn cannot_write(path: &Path, error: &io::Error) -> Failure {
    Failure::Refused(format!("cannot write {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn make(place: &Path, content: &[u8], replace: bool) -> Result<(), Failure> {
        let new = NewFolder::begin(place, replace, &mut |_| {})?;
        new.write("token", content)?;
        new.write(FILE_NAME, &Manifest::default().to_json())?;
        new.put_in_place(replace)
    }

    #[test]
    fn a_folder_appears_whole_for_its_owner_only_and_replaces_nothing_but_a_backup() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("backup");
        make(&place, b"first", false).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&place), mode(&place.join("token"))), (0o700, 0o600));
        assert!(make(&place, b"second", false).unwrap_err().message().unwrap().contains("--replace"));
        make(&place, b"third", true).unwrap();
        assert_eq!(fs::read(place.join("token")).unwrap(), b"third");
        fs::write(place.join("letter"), "Dear reader").unwrap();
        assert!(make(&place, b"fourth", true).unwrap_err().message().unwrap().contains("letter"));
        fs::remove_file(place.join(FILE_NAME)).unwrap();
        assert!(make(&place, b"fifth", true).unwrap_err().message().unwrap().contains("is not a backup"));
        assert_eq!(fs::read(place.join("token")).unwrap(), b"third");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left behind");
    }

    #[test]
    fn what_a_killed_command_left_is_removed_and_what_another_one_writes_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let (place, partial) = (folder.path().join("backup"), folder.path().join("backup.taskqueue-partial"));
        let writing = NewFolder::begin(&place, false, &mut |_| {}).unwrap();
        assert!(make(&place, b"x", false).unwrap_err().message().unwrap().contains("another program"));
        drop(writing);
        assert!(!partial.exists());
        fs::create_dir(&partial).unwrap();
        fs::write(partial.join("token"), "half").unwrap();
        let mut told = Vec::new();
        drop(NewFolder::begin(&place, false, &mut |path| told.push(path.to_owned())).unwrap());
        assert_eq!(told.len(), 1);
        assert!(!partial.exists() && !place.exists());
    }

    #[test]
    fn what_somebody_changed_during_the_copy_is_found_before_it_is_lost() {
        let folder = tempfile::tempdir().unwrap();
        let (place, partial) = (folder.path().join("backup"), folder.path().join("backup.taskqueue-partial"));
        make(&place, b"first", false).unwrap();
        let new = NewFolder::begin(&place, true, &mut |_| {}).unwrap();
        fs::write(place.join("letter"), "Dear reader").unwrap();
        assert!(new.put_in_place(true).unwrap_err().message().unwrap().contains("letter"));
        assert!(place.join("letter").exists() && !partial.exists());

        let new = NewFolder::begin(&folder.path().join("other"), false, &mut |_| {}).unwrap();
        let partial = new.path().to_owned();
        fs::rename(&partial, folder.path().join("moved")).unwrap();
        fs::create_dir(&partial).unwrap();
        assert!(new.put_in_place(false).unwrap_err().message().unwrap().contains("was replaced"));
        assert!(partial.exists(), "it is another's");
    }
}
