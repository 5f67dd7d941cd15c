//! `taskqueue restore`: puts a backup in the place of a database. The backup is checked, copied beside the place, and the copy is
//! checked again; only then does it take the place. Servers are kept out meanwhile, by the same two locks with which they keep
//! each other out.

use std::io;
use std::os::unix::fs::{MetadataExt, chown};
use std::path::{Path, PathBuf};

use crate::backup::{BackedUp, BackupError, BackupWatch, copy, unwritable};
use crate::new_file::{NewFile, split, sync_folder};
use crate::outside_reader;
use crate::ownership::{Lost, Reserved, path_of};

/// Makes the database at `target` what the backup `source` is. With `replace`, a database that is there is replaced.
pub fn restore(
    source: &Path,
    target: &Path,
    replace: bool,
    watch: &mut BackupWatch<'_>,
) -> Result<BackedUp, BackupError> {
    watch.check(source).map_err(of_source)?;
    let place = place_of(target)?;
    check_place(source, &place, replace)?;
    let reserved = Reserved::take(&place)?;
    let new = NewFile::begin(&place).map_err(|error| unwritable(&place, &error))?;
    let bytes = outside_reader::read(source, |reader| copy(reader, &new, None, watch))?;
    let report = watch.check(new.path())?;
    put_in_place(new, &reserved, &place).map_err(|error| unwritable(&place, &error))?;
    Ok(BackedUp { bytes, report })
}

/// The backend speaks of the database that a server was given.
fn of_source(error: BackupError) -> BackupError {
    match error {
        BackupError::Refused(why) => BackupError::Refused(why.replace("--database", "--from")),
        other => other,
    }
}

/// The path without symbolic links, as a server finds it.
fn place_of(target: &Path) -> Result<PathBuf, BackupError> {
    let found = match std::fs::symlink_metadata(target) {
        Ok(_) => target.canonicalize(),
        Err(_) => split(target).map(|(folder, name)| folder.join(name)),
    };
    found.map_err(|error| unwritable(target, &error))
}

fn check_place(source: &Path, place: &Path, replace: bool) -> Result<(), BackupError> {
    let shown = place.display();
    let refused = |why: String| Err(BackupError::Refused(why));
    let found = std::fs::metadata(place).ok();
    if found.as_ref().is_some_and(|found| !found.is_file()) {
        return refused(format!("{shown} is not a file; choose another --database"));
    }
    let identity = |found: &std::fs::Metadata| (found.dev(), found.ino());
    let same = found.as_ref().map(identity) == std::fs::metadata(source).ok().as_ref().map(identity);
    if found.is_some() && same {
        return refused(format!("--from and --database are the same file, {shown}"));
    }
    // What a server creates before it finds that the place is taken holds nothing.
    let is_taken = found.is_some_and(|found| found.len() > 0) || path_of(place, Lost::Log).exists();
    if is_taken && !replace {
        return refused(format!(
            "{shown} or its log exists; choose another --database, or replace it and lose what it holds with --replace"
        ));
    }
    Ok(())
}

/// The log of the old database goes first: with the new file it would be taken for that file's own, and undo it. After a crash
/// in between, the old file stands there without its log, and the command is run again.
fn put_in_place(new: NewFile, reserved: &Reserved, place: &Path) -> io::Result<()> {
    new.file().sync_all()?;
    if let Some((user, group)) = reserved.owner()? {
        chown(new.path(), Some(user), Some(group))?;
    }
    for file in [Lost::LogIndex, Lost::Log] {
        match std::fs::remove_file(path_of(place, file)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    sync_folder(place)?;
    new.put_in_place(true)
}
