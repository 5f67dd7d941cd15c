//! `taskqueue restore --from DIR`: puts a backup with secrets back as a whole (docs/decisions/0056). Secrets come first and the
//! database last: its place is free until everything else is there, so that a restore that was killed can be run again.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use taskqueue_core::words;
use taskqueue_store::check::Report;
use taskqueue_store_sqlite::BackupWatch;

use crate::args::{OutputArgs, RestoreArgs};
use crate::commands::maintenance::{Bars, backup_failure, blocking, note_older_schema, note_removed, stop_flag};
use crate::failure::Failure;
use crate::installation::{Entry, Manifest, Part, PutBack, Secret, place_of, whole_path};
use crate::open_store::{self, Database};
use crate::output::{FolderFile, FolderRecord, Printer, note};

/// What is put back, and how.
struct Work {
    from: PathBuf,
    manifest: Manifest,
    /// Of the entries of the manifest, in their order.
    places: Vec<PathBuf>,
    /// The folder of a key that a server made for itself: made here as it would be there.
    own_key_folder: Option<PathBuf>,
    replace: bool,
    stop: Arc<AtomicBool>,
    output: OutputArgs,
}

pub(super) async fn run(args: RestoreArgs) -> Result<(), Failure> {
    let RestoreArgs { from, database, replace, secrets, output } = args;
    let (began, stop, manifest) = (Instant::now(), stop_flag()?, Manifest::read(&from)?);
    if !manifest.has(Part::Database) && matches!(database, Database::Sqlite(_)) {
        return Err(Failure::Usage(format!(
            "{} holds secrets and no database; give the URL of PostgreSQL with --database, whose own tools restore it, as \
             docs/backup.md says",
            from.display()
        )));
    }
    let places = manifest.entries.iter().map(|entry| place_of(entry.part, &secrets, &database));
    let places: Vec<PathBuf> = places.collect::<Result<_, _>>()?;
    let key = manifest.entries.iter().zip(&places).find(|(entry, _)| entry.part == Part::Key);
    let own_key_folder = key.filter(|_| secrets.tls.tls_cert.is_none()).and_then(|(_, place)| place.parent());
    let own_key_folder = own_key_folder.map(Path::to_owned);
    let folder = from.display().to_string();
    let work = Work { from, manifest, places, own_key_folder, replace, stop, output };
    let (work, report) = blocking(move || put_back(&work).map(|report| (work, report))).await?;
    if let Some(report) = &report {
        note_older_schema(report);
    }
    let entries = work.manifest.entries.iter().zip(&work.places);
    let record = FolderRecord {
        folder,
        files: entries.map(|(entry, place)| file_of(entry, place)).collect(),
        absent: Part::ALL.into_iter().filter(|part| !work.manifest.has(*part)).map(Part::file_name).collect(),
        tasks: report.map(|report| report.tasks),
        seconds: began.elapsed().as_secs_f64(),
    };
    Printer::new(output).done(&record, &record.restored())
}

fn file_of(entry: &Entry, place: &Path) -> FolderFile {
    FolderFile { name: entry.part.file_name(), bytes: entry.bytes, path: whole_path(place) }
}

/// Puts everything into its place, or nothing.
fn put_back(work: &Work) -> Result<Option<Report>, Failure> {
    let problems = work.manifest.problems(&work.from, &work.stop)?;
    if let Some((_, first)) = problems.first() {
        let count = words::count(problems.len() as u64, "problem");
        let more = if problems.len() > 1 { "; taskqueue check names all" } else { "" };
        return Err(Failure::Refused(format!("{count} in the backup, so nothing was changed: {first}{more}")));
    }
    let mut missing = Vec::new();
    for (entry, place) in work.manifest.entries.iter().zip(&work.places) {
        if entry.part == Part::Database {
            continue;
        }
        let secret = read(&work.from, entry)?;
        match PutBack::is_there(&secret, place)? {
            true => note(&format!("{} is already there", place.display())),
            false => missing.push((secret, place)),
        }
    }
    let mut put = PutBack::default();
    if let Some(folder) = &work.own_key_folder {
        put.make_folder(folder)?;
    }
    for (secret, place) in &missing {
        put.put(secret, place, &mut note_removed)?;
    }
    let mut entries = work.manifest.entries.iter().zip(&work.places);
    let database = entries.find(|(entry, _)| entry.part == Part::Database);
    let report = database.map(|(_, place)| restore_database(work, place)).transpose()?;
    put.keep();
    Ok(report)
}

/// A secret of the folder, with the content that the manifest names.
fn read(folder: &Path, entry: &Entry) -> Result<Secret, Failure> {
    let path = folder.join(entry.part.file_name());
    let bytes = std::fs::read(&path).map_err(|error| Failure::cannot_read(path.display(), error))?;
    // It was compared with the manifest a moment ago.
    if Entry::of_bytes(entry.part, &bytes, entry.from.clone()) != *entry {
        return Err(Failure::Refused(format!("{} is being changed, so nothing was changed", path.display())));
    }
    Ok(Secret { part: entry.part, bytes, path: path.display().to_string() })
}

fn restore_database(work: &Work, place: &Path) -> Result<Report, Failure> {
    let mut bars = Bars::default();
    let mut report = |progress| bars.backup(progress);
    let mut watch = BackupWatch { stop: Arc::clone(&work.stop), report: &mut report, removed: &mut note_removed };
    let source = work.from.join(Part::Database.file_name());
    let done = open_store::restore(&source, place, work.replace, &mut watch);
    drop(bars);
    done.map(|done| done.report).map_err(|error| backup_failure(error, "restore", work.output))
}
