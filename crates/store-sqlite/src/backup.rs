//! `taskqueue backup`: a consistent copy of a database file, in one file, while a server writes to it. SQLite's online backup
//! runs inside one read transaction, so it copies one moment and never begins again, however much is written meanwhile
//! (docs/decisions/0056). The copy is checked before it takes its place.
//!
//! `taskqueue restore`: puts a backup in the place of a database. The backup is checked, copied beside the place, and the copy is
//! checked again; only then does it take the place. Servers are kept out meanwhile, by the same two locks with which they keep each
//! other out.

use std::io;
use std::os::unix::fs::{MetadataExt, fchown};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rusqlite::ErrorCode;
use rusqlite::backup::{Backup, StepResult};
use taskqueue_store::check::{self, CheckError, Report, Watch};

use crate::check::check;
use crate::migrate;
use crate::new_file::{NewFile, remove_leftovers, split, sync_folder};
use crate::open::{self, APPLICATION_ID, OpenError};
use crate::outside_reader::{self, OutsideReader};
use crate::ownership::{DatabaseFile, ReservedPlace, is_owned, path_of};

/// Pages that are copied at a time: 1 MiB, some milliseconds.
const STEP_PAGES: i32 = 256;
/// Bytes after which the copy is synced, so that the disk is not given gigabytes at once, for which the commits of the server
/// would wait.
const SYNC_BYTES: u64 = 32 << 20;
/// Growth of the log beyond which there are no more pauses.
const LOG_GROWTH_BYTES: u64 = 1 << 30;
/// A pause ends early enough to notice that the command shall end.
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

pub struct BackupOptions {
    pub bytes_per_second: u64,
    /// True if an earlier backup of the same name is replaced.
    pub replace: bool,
}

/// A finished copy.
#[derive(Debug)]
pub struct BackedUp {
    pub bytes: u64,
    pub report: Report,
}

#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// The text says what to do.
    #[error("{0}")]
    Refused(String),
    /// A database or its copy has problems.
    #[error("{} problems were found", .0.findings.count())]
    Unsound(Box<Report>),
    #[error("interrupted")]
    Interrupted,
}

type Result<T> = std::result::Result<T, BackupError>;

impl From<OpenError> for BackupError {
    fn from(error: OpenError) -> Self {
        Self::Refused(error.to_string())
    }
}

impl From<CheckError> for BackupError {
    fn from(error: CheckError) -> Self {
        match error {
            CheckError::Refused(why) => Self::Refused(why),
            CheckError::Interrupted => Self::Interrupted,
        }
    }
}

/// The progress of a backup or a restoration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackupProgress {
    /// Bytes that were copied, and of how many.
    Copying {
        done: u64,
        of: u64,
    },
    Checking(check::Progress),
}

/// The watcher of a backup: is told of its progress, and has the flag that ends it.
pub struct BackupWatch<'a> {
    pub stop: std::sync::Arc<std::sync::atomic::AtomicBool>,
    pub report: &'a mut dyn FnMut(BackupProgress),
    /// Is told of each file that an earlier one left which was killed, and that was removed.
    pub removed: &'a mut dyn FnMut(&Path),
}

impl BackupWatch<'_> {
    fn copied(&mut self, done: u64, of: u64) -> Result<()> {
        (self.report)(BackupProgress::Copying { done, of });
        if self.stop.load(std::sync::atomic::Ordering::Relaxed) { Err(BackupError::Interrupted) } else { Ok(()) }
    }

    /// Checks a file; what is found is an error.
    fn check(&mut self, path: &Path) -> Result<Report> {
        let mut report = |progress| (self.report)(BackupProgress::Checking(progress));
        let found = check(path, &mut Watch { stop: self.stop.clone(), report: &mut report })?;
        if found.findings.is_sound() { Ok(found) } else { Err(BackupError::Unsound(found.into())) }
    }
}

/// Copies the database at `source` to the file `target`.
pub fn backup(source: &Path, target: &Path, options: &BackupOptions, watch: &mut BackupWatch<'_>) -> Result<BackedUp> {
    let unwritable = |error: io::Error| unwritable(target, &error);
    // Before anything is written: the errors of a wrong source are better than those of a wrong target.
    outside_reader::read(source, |reader| check_target(&reader.path, target, options.replace))?;
    remove_leftovers(target, watch.removed);
    let new = NewFile::begin(target).map_err(unwritable)?;
    let bytes = outside_reader::read(source, |reader| copy(reader, &new, Some(options.bytes_per_second), watch))?;
    let report = watch.check(&new.path)?;
    new.put_in_place(options.replace).map_err(unwritable)?;
    Ok(BackedUp { bytes, report })
}

/// Copies a snapshot into a new file, and returns its size. At a given rate the disk stays free for the commits of the server. The
/// snapshot keeps the log from being reused, so that the log grows by everything that is written meanwhile; when it has grown much,
/// the rest is copied as fast as possible.
fn copy(
    reader: &OutsideReader,
    new: &NewFile,
    bytes_per_second: Option<u64>,
    watch: &mut BackupWatch<'_>,
) -> Result<u64> {
    new.file().set_len(0).map_err(|error| unwritable(&new.place, &error))?;
    let failed = |error: rusqlite::Error| of_copy(&reader.path, &new.place, &error);
    let page_bytes: u32 = reader.connection.pragma_query_value(None, "page_size", |row| row.get(0)).map_err(failed)?;
    let mut target = open::copy_target(&new.path).map_err(failed)?;
    if !new.is_intact() {
        return Err(unwritable(&new.place, &io::Error::other("the file that is being written was replaced")));
    }
    let copying = Backup::new(&reader.connection, &mut target).map_err(failed)?;
    let (began, log_before, mut synced) = (Instant::now(), reader.log_bytes(), 0);
    loop {
        let step = copying.step(STEP_PAGES).map_err(failed)?;
        let progress = copying.progress();
        let bytes = |pages: i32| u64::try_from(pages).unwrap_or(0) * u64::from(page_bytes);
        let (of, done) = (bytes(progress.pagecount), bytes(progress.pagecount - progress.remaining));
        watch.copied(done, of)?;
        if step == StepResult::Done {
            break;
        }
        if done - synced >= SYNC_BYTES {
            new.file().sync_data().map_err(|error| unwritable(&new.place, &error))?;
            synced = done;
        }
        if let Some(rate) = bytes_per_second {
            let grown = reader.log_bytes().saturating_sub(log_before);
            loop {
                let left = pause(rate, done, grown, began.elapsed());
                if left.is_zero() {
                    break;
                }
                std::thread::sleep(left.min(LONGEST_PAUSE));
                watch.copied(done, of)?;
            }
        }
    }
    drop(copying);
    target.close().map_err(|(_, error)| failed(error))?;
    new.file().metadata().map(|copy| copy.len()).map_err(|error| unwritable(&new.place, &error))
}

/// Returns how long to wait after so many bytes in so much time.
fn pause(bytes_per_second: u64, done: u64, log_growth: u64, elapsed: Duration) -> Duration {
    if log_growth > LOG_GROWTH_BYTES {
        return Duration::ZERO;
    }
    let micros = u128::from(done) * 1_000_000 / u128::from(bytes_per_second.max(1));
    Duration::from_micros(u64::try_from(micros).unwrap_or(u64::MAX)).saturating_sub(elapsed)
}

/// Refuses a target that would harm something.
fn check_target(source: &Path, target: &Path, replace: bool) -> Result<()> {
    let (place, shown) = (place_of(target)?, target.display());
    let own = [DatabaseFile::Database, DatabaseFile::Lock, DatabaseFile::Log, DatabaseFile::LogIndex]
        .map(|file| path_of(source, file));
    let found = std::fs::symlink_metadata(&place).ok();
    let refused = |why: String| Err(BackupError::Refused(why));
    if own.contains(&place) || found.as_ref().is_some_and(|found| is_same_file(source, found)) {
        return refused(format!("{shown} is a file of the database itself; choose another --to"));
    }
    // The log of another database would be taken for that of the copy.
    if std::fs::symlink_metadata(path_of(&place, DatabaseFile::Log)).is_ok() {
        return refused(format!("{shown}-wal exists: a server uses or used {shown}; choose another --to"));
    }
    match found {
        None => Ok(()),
        Some(found) if found.is_symlink() => refused(format!("{shown} is a symbolic link; name the file itself")),
        Some(found) if !found.is_file() => refused(format!("{shown} is not a file; choose another --to")),
        Some(_) if !replace => refused(format!("{shown} exists; choose another --to, or replace it with --replace")),
        Some(_) if !header_is_ours(&place) => {
            refused(format!("{shown} is not a backup of taskqueue, so it is not replaced; choose another --to"))
        }
        Some(_) if is_owned(&place) => refused(format!("{shown} is in use by a server; choose another --to")),
        Some(_) => Ok(()),
    }
}

/// Returns whether a path leads to this file.
fn is_same_file(path: &Path, found: &std::fs::Metadata) -> bool {
    std::fs::metadata(path).is_ok_and(|other| (other.dev(), other.ino()) == (found.dev(), found.ino()))
}

/// Returns whether the header of a file says that it is a database of this program.
fn header_is_ours(path: &Path) -> bool {
    const HEADER: usize = 100;
    let mut header = Vec::with_capacity(HEADER);
    let read = std::fs::File::open(path)
        .and_then(|file| io::Read::read_to_end(&mut io::Read::take(file, HEADER as u64), &mut header));
    let id = header.get(68..72);
    read.is_ok() && header.starts_with(b"SQLite format 3\0") && id == Some(&APPLICATION_ID.to_be_bytes()[..])
}

/// An error of the file that is being written.
fn unwritable(target: &Path, error: &io::Error) -> BackupError {
    let shown = target.display();
    BackupError::Refused(match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
            format!("there is no room for {shown} ({error}); nothing of it was left; make room or choose another place")
        }
        io::ErrorKind::AlreadyExists => format!("{shown} exists; choose another place"),
        _ => format!("cannot write {shown}: {error}"),
    })
}

/// Whose error it is: the copy is written without a log, so a failed write is the target's.
fn of_copy(source: &Path, target: &Path, error: &rusqlite::Error) -> BackupError {
    use rusqlite::ffi;
    let code = error.sqlite_error().map(|error| error.extended_code);
    if error.sqlite_error_code() == Some(ErrorCode::DiskFull) {
        return unwritable(target, &io::ErrorKind::StorageFull.into());
    }
    match code {
        Some(ffi::SQLITE_IOERR_WRITE | ffi::SQLITE_IOERR_TRUNCATE | ffi::SQLITE_IOERR_FSYNC) => {
            unwritable(target, &io::Error::other(error.to_string()))
        }
        _ => OpenError::of_sqlite(source, error).into(),
    }
}

/// Makes the database at `target` what the backup `source` is. With `replace`, a database that is there is replaced.
pub fn restore(source: &Path, target: &Path, replace: bool, watch: &mut BackupWatch<'_>) -> Result<BackedUp> {
    watch.check(source).map_err(of_source)?;
    let place = place_of(target)?;
    check_place(source, &place, replace)?;
    remove_leftovers(&place, watch.removed);
    let reserved = ReservedPlace::take(&place)?;
    let new = NewFile::begin(&place).map_err(|error| unwritable(&place, &error))?;
    let bytes = outside_reader::read(source, |reader| copy(reader, &new, None, watch))?;
    let report = watch.check(&new.path)?;
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
fn place_of(target: &Path) -> Result<PathBuf> {
    split(target).map(|(folder, name)| folder.join(name)).map_err(|error| unwritable(target, &error))
}

/// Refuses a place at which something would be lost that is no database of this program.
fn check_place(source: &Path, place: &Path, replace: bool) -> Result<()> {
    const ELSEWHERE: &str = "move it away, or choose another --database";
    let (shown, log) = (place.display(), path_of(place, DatabaseFile::Log));
    // What a server creates before it finds that the place is taken holds nothing.
    let holds = |found: &std::fs::Metadata| found.len() > 0;
    let found = std::fs::symlink_metadata(place).ok();
    let has_log = std::fs::symlink_metadata(&log).is_ok();
    let why = match &found {
        Some(found) if found.is_symlink() => format!("{shown} is a symbolic link; name the file itself"),
        Some(found) if !found.is_file() => format!("{shown} is not a file; choose another --database"),
        Some(found) if is_same_file(source, found) => format!("--from and --database are the same file, {shown}"),
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

/// Returns whether a file is a database of this program: by its header, also if the rest is damaged; or by its log, which alone has
/// all of a database that was created a moment ago.
fn is_ours(place: &Path) -> bool {
    let recognised = || outside_reader::read(place, |reader| migrate::recognise(&reader.connection, &reader.path));
    header_is_ours(place) || recognised().is_ok()
}

/// Returns whether a file is a write-ahead log of SQLite, or empty.
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
fn put_in_place(new: NewFile, reserved: &ReservedPlace, place: &Path) -> io::Result<()> {
    new.file().sync_all()?;
    if let Some((user, group)) = reserved.owner()? {
        // Not by its name, behind which there may be another file meanwhile.
        fchown(new.file(), Some(user), Some(group))?;
    }
    for file in [DatabaseFile::LogIndex, DatabaseFile::Log] {
        match std::fs::remove_file(path_of(place, file)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    sync_folder(place)?;
    new.put_in_place(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_makes_up_for_what_was_too_fast_unless_the_log_has_grown_much() {
        let millis = Duration::from_millis;
        let cases = [
            (500, 0, millis(100), millis(400)),
            (500, 0, millis(500), millis(0)),
            (500, 0, millis(900), millis(0)),
            (500, 1 << 30, millis(100), millis(400)),
            (500, (1 << 30) + 1, millis(100), millis(0)),
        ];
        for (done, growth, elapsed, expected) in cases {
            assert_eq!(pause(1_000, done, growth, elapsed), expected, "{done} {growth} {elapsed:?}");
        }
        assert_eq!(pause(0, u64::MAX, 0, Duration::ZERO), Duration::from_micros(u64::MAX));
    }
}
