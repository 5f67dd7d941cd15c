//! `taskqueue restore`: puts a backup in the place of a database. The backup is checked, copied beside the place, and the copy is
//! checked again; only then does it take the place. Servers are kept out meanwhile, by the same two locks with which they keep
//! each other out.

use std::io;
use std::os::unix::fs::{MetadataExt, fchown};
use std::path::{Path, PathBuf};

use crate::backup::{BackedUp, BackupError, BackupWatch, copy, header_is_ours, unwritable};
use crate::new_file::{NewFile, remove_leftovers, split, sync_folder};
use crate::ownership::{Lost, Reserved, path_of};
use crate::{migrate, outside_reader};

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
    remove_leftovers(&place, watch.removed);
    let reserved = Reserved::take(&place)?;
    let new = NewFile::begin(&place).map_err(|error| unwritable(&place, &error))?;
    let bytes = outside_reader::read(source, |reader| copy(reader, &new, None, watch))?;
    let report = watch.check(new.path())?;
    // The copy took its time, and somebody may have put something else there.
    check_place(source, &place, replace)?;
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

/// In a folder without symbolic links, as a server finds it.
fn place_of(target: &Path) -> Result<PathBuf, BackupError> {
    split(target).map(|(folder, name)| folder.join(name)).map_err(|error| unwritable(target, &error))
}

/// Refuses a place at which something would be lost that is no database of this program.
fn check_place(source: &Path, place: &Path, replace: bool) -> Result<(), BackupError> {
    const ELSEWHERE: &str = "move it away, or choose another --database";
    let (shown, log) = (place.display(), path_of(place, Lost::Log));
    let identity = |found: &std::fs::Metadata| (found.dev(), found.ino());
    let is_source =
        |found: &std::fs::Metadata| std::fs::metadata(source).is_ok_and(|source| identity(&source) == identity(found));
    // What a server creates before it finds that the place is taken holds nothing.
    let holds = |found: &std::fs::Metadata| found.len() > 0;
    let found = std::fs::symlink_metadata(place).ok();
    let has_log = std::fs::symlink_metadata(&log).is_ok();
    let why = match &found {
        Some(found) if found.is_symlink() => format!("{shown} is a symbolic link; name the file itself"),
        Some(found) if !found.is_file() => format!("{shown} is not a file; choose another --database"),
        Some(found) if is_source(found) => format!("--from and --database are the same file, {shown}"),
        found if !replace && (has_log || found.as_ref().is_some_and(holds)) => format!(
            "{shown} or its log exists; choose another --database, or replace it and lose what it holds with --replace"
        ),
        Some(found) if holds(found) && !is_ours(place) => {
            format!("{shown} is not a database of taskqueue, so it is not replaced; {ELSEWHERE}")
        }
        _ if has_log && !is_log(&log) => {
            format!("{} is not the log of a database, so it is not removed; {ELSEWHERE}", log.display())
        }
        _ => return Ok(()),
    };
    Err(BackupError::Refused(why))
}

/// Whether a file is a database of this program: by its header, also if the rest is damaged; or by its log, which alone has all of a
/// database that was created a moment ago.
fn is_ours(place: &Path) -> bool {
    let recognised = || outside_reader::read(place, |reader| migrate::recognise(&reader.connection, reader.path()));
    header_is_ours(place) || recognised().is_ok()
}

/// Whether a file is a write-ahead log of SQLite, or empty.
fn is_log(path: &Path) -> bool {
    const MAGIC: [[u8; 4]; 2] = [[0x37, 0x7f, 0x06, 0x82], [0x37, 0x7f, 0x06, 0x83]];
    // A pipe would wait for its writer.
    let Some(found) = std::fs::symlink_metadata(path).ok().filter(std::fs::Metadata::is_file) else { return false };
    let mut begin = [0; 4];
    let read = std::fs::File::open(path).and_then(|mut file| io::Read::read_exact(&mut file, &mut begin));
    found.len() == 0 || (read.is_ok() && MAGIC.contains(&begin))
}

/// The log of the old database goes first: with the new file it would be taken for that file's own, and undo it. After a crash
/// in between, the old file stands there without its log, and the command is run again.
fn put_in_place(new: NewFile, reserved: &Reserved, place: &Path) -> io::Result<()> {
    new.file().sync_all()?;
    if let Some((user, group)) = reserved.owner()? {
        // Not by its name, behind which there may be another file meanwhile.
        fchown(new.file(), Some(user), Some(group))?;
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
