//! `taskqueue backup`: a consistent copy of a database file, in one file, while a server writes to it. SQLite's online backup
//! runs inside one read transaction, so it copies one moment and never begins again, however much is written meanwhile
//! (docs/decisions/0056). The copy is checked before it takes its place.

mod pace;

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::ErrorCode;
use rusqlite::backup::{Backup, StepResult};
use taskqueue_store::check::{self, CheckError, Report, Watch};

use self::pace::Pace;
use crate::check::check;
use crate::new_file::{NewFile, remove_leftovers, split};
use crate::open::{self, APPLICATION_ID, OpenError};
use crate::outside_reader::{self, OutsideReader};
use crate::ownership::{Lost, is_owned, path_of};

/// Pages that are copied at a time: 1 MiB, some milliseconds.
const STEP_PAGES: i32 = 256;
/// Bytes after which the copy is synced, so that the disk is not given gigabytes at once, for which the commits of the server
/// would wait.
const SYNC_BYTES: u64 = 32 << 20;
/// A pause ends early enough to notice that the command shall end.
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

pub struct BackupOptions {
    pub bytes_per_second: u64,
    /// Whether an earlier backup of the same name is replaced.
    pub replace: bool,
}

/// What was copied.
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

/// How far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackupProgress {
    /// Bytes that were copied, and of how many.
    Copying {
        done: u64,
        of: u64,
    },
    Checking(check::Progress),
}

/// Who watches a backup: what is told of its progress, and the flag that ends it.
pub struct BackupWatch<'a> {
    pub stop: std::sync::Arc<std::sync::atomic::AtomicBool>,
    pub report: &'a mut dyn FnMut(BackupProgress),
    /// Is told of each file that an earlier one left which was killed, and that was removed.
    pub removed: &'a mut dyn FnMut(&Path),
}

impl BackupWatch<'_> {
    fn copied(&mut self, done: u64, of: u64) -> Result<(), BackupError> {
        (self.report)(BackupProgress::Copying { done, of });
        if self.stop.load(std::sync::atomic::Ordering::Relaxed) { Err(BackupError::Interrupted) } else { Ok(()) }
    }

    /// Checks a file; what is found is an error.
    pub(crate) fn check(&mut self, path: &Path) -> Result<Report, BackupError> {
        let mut report = |progress| (self.report)(BackupProgress::Checking(progress));
        let found = check(path, &mut Watch { stop: self.stop.clone(), report: &mut report })?;
        if found.findings.is_sound() { Ok(found) } else { Err(BackupError::Unsound(found.into())) }
    }
}

/// Copies the database at `source` to the file `target`.
pub fn backup(
    source: &Path,
    target: &Path,
    options: &BackupOptions,
    watch: &mut BackupWatch<'_>,
) -> Result<BackedUp, BackupError> {
    let unwritable = |error: io::Error| unwritable(target, &error);
    // Before anything is written: the errors of a wrong source are better than those of a wrong target.
    outside_reader::read(source, |reader| check_target(reader.path(), target, options.replace))?;
    remove_leftovers(target, watch.removed);
    let new = NewFile::begin(target).map_err(unwritable)?;
    let pace = Pace { bytes_per_second: options.bytes_per_second };
    let bytes = outside_reader::read(source, |reader| copy(reader, &new, Some(&pace), watch))?;
    let report = watch.check(new.path())?;
    new.put_in_place(options.replace).map_err(unwritable)?;
    Ok(BackedUp { bytes, report })
}

/// Copies a snapshot into a new file, and returns its size.
pub(crate) fn copy(
    reader: &OutsideReader,
    new: &NewFile,
    pace: Option<&Pace>,
    watch: &mut BackupWatch<'_>,
) -> Result<u64, BackupError> {
    new.file().set_len(0).map_err(|error| unwritable(new.place(), &error))?;
    let failed = |error: rusqlite::Error| of_copy(reader.path(), new.place(), &error);
    let page_bytes: u32 = reader.connection.pragma_query_value(None, "page_size", |row| row.get(0)).map_err(failed)?;
    let mut target = open::copy_target(new.path()).map_err(failed)?;
    if !new.is_intact() {
        return Err(unwritable(new.place(), &io::Error::other("the file that is being written was replaced")));
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
            new.file().sync_data().map_err(|error| unwritable(new.place(), &error))?;
            synced = done;
        }
        if let Some(pace) = pace {
            let grown = reader.log_bytes().saturating_sub(log_before);
            pause(pace, done, grown, began, &mut || watch.copied(done, of))?;
        }
    }
    drop(copying);
    target.close().map_err(|(_, error)| failed(error))?;
    new.file().metadata().map(|copy| copy.len()).map_err(|error| unwritable(new.place(), &error))
}

/// Waits as long as the pace wants.
fn pause(
    pace: &Pace,
    done: u64,
    log_growth: u64,
    began: Instant,
    still_wanted: &mut dyn FnMut() -> Result<(), BackupError>,
) -> Result<(), BackupError> {
    loop {
        let left = pace.pause(done, log_growth, began.elapsed());
        if left.is_zero() {
            return Ok(());
        }
        std::thread::sleep(left.min(LONGEST_PAUSE));
        still_wanted()?;
    }
}

/// Refuses a target that would harm something.
fn check_target(source: &Path, target: &Path, replace: bool) -> Result<(), BackupError> {
    let (folder, name) = split(target).map_err(|error| unwritable(target, &error))?;
    let (place, shown) = (folder.join(name), target.display());
    let own = [Lost::Database, Lost::Lock, Lost::Log, Lost::LogIndex].map(|file| path_of(source, file));
    let is_source = |found: &std::fs::Metadata| {
        std::fs::metadata(source).is_ok_and(|own| (own.dev(), own.ino()) == (found.dev(), found.ino()))
    };
    let found = std::fs::symlink_metadata(&place).ok();
    let refused = |why: String| Err(BackupError::Refused(why));
    if own.contains(&place) || found.as_ref().is_some_and(is_source) {
        return refused(format!("{shown} is a file of the database itself; choose another --to"));
    }
    // The log of another database would be taken for that of the copy.
    if std::fs::symlink_metadata(path_of(&place, Lost::Log)).is_ok() {
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

/// Whether the header of a file says that it is a database of this program.
pub(crate) fn header_is_ours(path: &Path) -> bool {
    const HEADER: usize = 100;
    let mut header = Vec::with_capacity(HEADER);
    let read = std::fs::File::open(path)
        .and_then(|file| io::Read::read_to_end(&mut io::Read::take(file, HEADER as u64), &mut header));
    let id = header.get(68..72);
    read.is_ok() && header.starts_with(b"SQLite format 3\0") && id == Some(&APPLICATION_ID.to_be_bytes()[..])
}

/// An error of the file that is being written.
pub(crate) fn unwritable(target: &Path, error: &io::Error) -> BackupError {
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
