//! `taskqueue backup` and `restore`: a copy of an SQLite database while its server runs, and back. The copy itself is in the backend.
//! With the secrets of the installation it is a folder (docs/decisions/0056), which is put back as a whole: secrets come first and the
//! database last; its place is free until everything else is there, so that a restore that was killed can be run again.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use taskqueue_core::words;
use taskqueue_store::check::Report;
use taskqueue_store_sqlite::{BackedUp, BackupError, BackupOptions, BackupWatch, backup, restore};

use super::maintenance::{Bars, backup_failure, blocking, note_older_schema, note_removed, stop_flag};
use crate::args::{BackupArgs, OutputArgs, RestoreArgs};
use crate::failure::Failure;
use crate::installation::{
    Entry, MANIFEST, Manifest, NewFolder, Part, PutBack, Secret, place_of, read_secrets, whole_path,
};
use crate::open_store::Database;
use crate::output::{BackupRecord, FolderFile, FolderRecord, Printer, note};

const BACKUP_OF_POSTGRES: &str = "backup copies SQLite files; back up PostgreSQL with pg_dump or continuous archiving, as \
    docs/backup.md says, and check it with taskqueue check";
const RESTORE_OF_POSTGRES: &str =
    "restore puts SQLite files in their place; restore PostgreSQL with pg_restore, as docs/backup.md says";
const NOTHING_TO_BACK_UP: &str = "there is nothing to back up: PostgreSQL has its own tools (pg_dump, see docs/backup.md), and no \
    flag or variable names a token, a tokens file or a TLS key";

/// A copy that is being made: when it began, what stops it, and how it is printed.
struct CopyCommand {
    began: Instant,
    stop: Arc<AtomicBool>,
    output: OutputArgs,
}

impl CopyCommand {
    fn begin(output: OutputArgs) -> Result<Self, Failure> {
        Ok(Self { began: Instant::now(), stop: stop_flag()?, output })
    }

    /// Runs a copy of the backend with its bars. `doing` is the word for it in messages.
    fn run(
        &self,
        doing: &str,
        copy: impl FnOnce(&mut BackupWatch<'_>) -> Result<BackedUp, BackupError>,
    ) -> Result<BackedUp, Failure> {
        let mut bars = Bars::default();
        let mut report = |progress| bars.backup(progress);
        let stop = Arc::clone(&self.stop);
        let done = copy(&mut BackupWatch { stop, report: &mut report, removed: &mut note_removed });
        drop(bars);
        done.map_err(|error| backup_failure(error, doing, self.output))
    }

    fn print_file(&self, done: &BackedUp, verb: &str, file: &Path) -> Result<(), Failure> {
        note_older_schema(&done.report);
        let (file, seconds) = (file.display().to_string(), self.began.elapsed().as_secs_f64());
        let record = BackupRecord { file, bytes: done.bytes, report: &done.report, seconds };
        Printer::new(self.output).done(&record, &record.sentence(verb))
    }

    /// The record of a folder with secrets, whose files came from these places or are there now.
    fn folder_record(
        &self,
        folder: &Path,
        manifest: &Manifest,
        places: impl Iterator<Item = String>,
        report: Option<Report>,
    ) -> FolderRecord {
        if let Some(report) = &report {
            note_older_schema(report);
        }
        let file =
            |(entry, path): (&Entry, String)| FolderFile { name: entry.part.file_name(), bytes: entry.bytes, path };
        FolderRecord {
            folder: folder.display().to_string(),
            files: manifest.entries.iter().zip(places).map(file).collect(),
            absent: manifest.absent().map(Part::file_name).collect(),
            tasks: report.map(|report| report.tasks),
            seconds: self.began.elapsed().as_secs_f64(),
        }
    }
}

pub(crate) async fn run_backup(args: BackupArgs) -> Result<(), Failure> {
    let BackupArgs { database, to, with_secrets, replace, rate, secrets, output } = args;
    let options = BackupOptions { bytes_per_second: u64::from(rate) << 20, replace };
    if with_secrets {
        let copying = CopyCommand::begin(output)?;
        // Before anything is written: a secret that cannot be read is found at once.
        let secrets = read_secrets(&secrets, &database).await?;
        return blocking(move || back_up_folder(&copying, database, &secrets, &to, &options)).await;
    }
    if let Some(flag) = secrets.first_flag() {
        return Err(Failure::Usage(format!(
            "{flag} is for --with-secrets; a backup in a file is of the database alone"
        )));
    }
    let Database::Sqlite(path) = database else { return Err(Failure::Usage(BACKUP_OF_POSTGRES.to_owned())) };
    let copying = CopyCommand::begin(output)?;
    blocking(move || {
        let done = copying.run("backup", |watch| backup(&path, &to, &options, watch))?;
        copying.print_file(&done, "backed up", &to)
    })
    .await
}

pub(crate) async fn run_restore(args: RestoreArgs) -> Result<(), Failure> {
    let is_folder = args.from.is_dir();
    let copying = CopyCommand::begin(args.output)?;
    if is_folder {
        return blocking(move || restore_folder(&copying, &args)).await;
    }
    let RestoreArgs { from, database, replace, secrets, .. } = args;
    let Database::Sqlite(path) = database else { return Err(Failure::Usage(RESTORE_OF_POSTGRES.to_owned())) };
    if let Some(flag) = secrets.first_flag() {
        let why = "is for a folder of backup --with-secrets; --from is a file, which holds the database alone";
        return Err(Failure::Usage(format!("{flag} {why}")));
    }
    blocking(move || {
        let done = copying.run("restore", |watch| restore(&from, &path, replace, watch))?;
        copying.print_file(&done, "restored", &path)
    })
    .await
}

fn back_up_folder(
    copying: &CopyCommand,
    database: Database,
    secrets: &[Secret],
    to: &Path,
    options: &BackupOptions,
) -> Result<(), Failure> {
    let database = match database {
        Database::Sqlite(path) => Some(path),
        Database::Postgres(_) => None,
    };
    if database.is_none() && secrets.is_empty() {
        return Err(Failure::Refused(NOTHING_TO_BACK_UP.to_owned()));
    }
    let new = NewFolder::begin(to, options.replace, &mut note_removed)?;
    let (mut manifest, mut report) = (Manifest::default(), None);
    if let Some(database) = &database {
        if database.canonicalize().is_ok_and(|path| path.starts_with(new.place())) {
            let shown = to.display();
            return Err(Failure::Refused(format!("{shown} has the database itself in it; choose another --to")));
        }
        let copy = new.path().join(Part::Database.file_name());
        report = Some(copying.run("backup", |watch| backup(database, &copy, options, watch))?.report);
        manifest.entries.push(Entry::of_file(Part::Database, &copy, whole_path(database), &copying.stop)?);
    }
    for Secret { part, bytes, path } in secrets {
        new.write(part.file_name(), bytes)?;
        manifest.entries.push(Entry::of_bytes(*part, bytes, path.clone()));
    }
    new.write(MANIFEST, &manifest.to_json())?;
    new.put_in_place(options.replace)?;
    let record = copying.folder_record(to, &manifest, manifest.entries.iter().map(|entry| entry.from.clone()), report);
    let absences: Vec<&str> = manifest.absent().filter_map(Part::absence).collect();
    Printer::new(copying.output).done(&record, &record.backed_up(&absences))
}

fn restore_folder(copying: &CopyCommand, args: &RestoreArgs) -> Result<(), Failure> {
    let RestoreArgs { from, database, replace, secrets, .. } = args;
    let manifest = Manifest::read(from)?;
    if !manifest.has(Part::Database) && matches!(database, Database::Sqlite(_)) {
        return Err(Failure::Usage(format!(
            "{} holds secrets and no database; give the URL of PostgreSQL with --database, whose own tools restore it, as \
             docs/backup.md says",
            from.display()
        )));
    }
    let places = manifest.entries.iter().map(|entry| place_of(entry.part, secrets, database));
    let places: Vec<PathBuf> = places.collect::<Result<_, _>>()?;
    let problems = manifest.problems(from, &copying.stop)?;
    if let Some((_, first)) = problems.first() {
        let count = words::count(problems.len() as u64, "problem");
        let more = if problems.len() > 1 { "; taskqueue check names all" } else { "" };
        return Err(Failure::Refused(format!("{count} in the backup, so nothing was changed: {first}{more}")));
    }
    let (mut missing, mut database) = (Vec::new(), None);
    for (entry, place) in manifest.entries.iter().zip(&places) {
        if entry.part == Part::Database {
            database = Some(place);
            continue;
        }
        let secret = read_secret(from, entry)?;
        match PutBack::is_there(&secret, place)? {
            true => note(&format!("{} is already there", place.display())),
            false => missing.push((secret, place)),
        }
    }
    let mut put = PutBack::default();
    let mut entries = manifest.entries.iter().zip(&places);
    // The folder of a key that a server made for itself is made here as it would be there.
    if let Some((_, key)) = entries.find(|(entry, _)| entry.part == Part::Key && secrets.tls.tls_cert.is_none())
        && let Some(folder) = key.parent()
    {
        put.make_folder(folder)?;
    }
    for (secret, place) in &missing {
        put.put(secret, place, &mut note_removed)?;
    }
    let source = from.join(Part::Database.file_name());
    let restored = database.map(|place| copying.run("restore", |watch| restore(&source, place, *replace, watch)));
    let report = restored.transpose()?.map(|done| done.report);
    put.keep();
    let record = copying.folder_record(from, &manifest, places.iter().map(|place| whole_path(place)), report);
    Printer::new(copying.output).done(&record, &record.restored())
}

/// Reads a secret of the folder, with the content that the manifest names.
fn read_secret(folder: &Path, entry: &Entry) -> Result<Secret, Failure> {
    let path = folder.join(entry.part.file_name());
    let bytes = std::fs::read(&path).map_err(Failure::cannot_read(path.display()))?;
    // It was compared with the manifest a moment ago.
    if Entry::of_bytes(entry.part, &bytes, entry.from.clone()) != *entry {
        return Err(Failure::Refused(format!("{} is being changed, so nothing was changed", path.display())));
    }
    Ok(Secret { part: entry.part, bytes, path: path.display().to_string() })
}
