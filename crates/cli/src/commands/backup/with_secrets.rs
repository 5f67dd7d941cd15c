//! `taskqueue backup --with-secrets`: the database and the secrets of an installation in a folder (docs/decisions/0056).

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use taskqueue_store::check::Report;
use taskqueue_store_sqlite::{BackupOptions, BackupWatch};

use crate::args::{BackupArgs, OutputArgs};
use crate::commands::maintenance::{Bars, backup_failure, blocking, note_older_schema, note_removed, stop_flag};
use crate::failure::Failure;
use crate::installation::{Entry, MANIFEST, Manifest, NewFolder, Part, Secret, read_secrets, whole_path};
use crate::open_store::{self, Database};
use crate::output::{FolderFile, FolderRecord, Printer};

const NOTHING: &str = "there is nothing to back up: PostgreSQL has its own tools (pg_dump, see docs/backup.md), and no flag or \
    variable names a token, a tokens file or a TLS key";

/// What is copied, and how.
struct Work {
    database: Option<PathBuf>,
    secrets: Vec<Secret>,
    to: PathBuf,
    options: BackupOptions,
    stop: Arc<AtomicBool>,
    output: OutputArgs,
}

pub(super) async fn run(args: BackupArgs) -> Result<(), Failure> {
    let (began, stop, output) = (Instant::now(), stop_flag()?, args.output);
    // Before anything is written: a secret that cannot be read is found at once.
    let secrets = read_secrets(&args.secrets, &args.database).await?;
    let database = match args.database {
        Database::Sqlite(path) => Some(path),
        Database::Postgres(_) => None,
    };
    if database.is_none() && secrets.is_empty() {
        return Err(Failure::Refused(NOTHING.to_owned()));
    }
    let options = BackupOptions { bytes_per_second: u64::from(args.rate) << 20, replace: args.replace };
    let folder = args.to.display().to_string();
    let work = Work { database, secrets, to: args.to, options, stop, output };
    let (manifest, report) = blocking(move || write(&work)).await?;
    if let Some(report) = &report {
        note_older_schema(report);
    }
    let files = manifest.entries.iter().map(|entry| FolderFile {
        name: entry.part.file_name(),
        bytes: entry.bytes,
        path: entry.from.clone(),
    });
    let absent: Vec<Part> = Part::ALL.into_iter().filter(|part| !manifest.has(*part)).collect();
    let record = FolderRecord {
        folder,
        files: files.collect(),
        absent: absent.iter().map(|part| part.file_name()).collect(),
        tasks: report.map(|report| report.tasks),
        seconds: began.elapsed().as_secs_f64(),
    };
    let absences: Vec<&str> = absent.into_iter().filter_map(Part::absence).collect();
    Printer::new(output).done(&record, &record.backed_up(&absences))
}

/// Writes the folder, and returns what is in it.
fn write(work: &Work) -> Result<(Manifest, Option<Report>), Failure> {
    let new = NewFolder::begin(&work.to, work.options.replace, &mut note_removed)?;
    let (mut manifest, mut report) = (Manifest::default(), None);
    if let Some(database) = &work.database {
        if database.canonicalize().is_ok_and(|path| path.starts_with(new.place())) {
            let shown = work.to.display();
            return Err(Failure::Refused(format!("{shown} has the database itself in it; choose another --to")));
        }
        report = Some(copy_database(work, database, &new)?);
        let (copy, from) = (new.path().join(Part::Database.file_name()), whole_path(database));
        manifest.entries.push(Entry::of_file(Part::Database, &copy, from, &work.stop)?);
    }
    for Secret { part, bytes, path } in &work.secrets {
        new.write(part.file_name(), bytes)?;
        manifest.entries.push(Entry::of_bytes(*part, bytes, path.clone()));
    }
    new.write(MANIFEST, &manifest.to_json())?;
    new.put_in_place(work.options.replace)?;
    Ok((manifest, report))
}

fn copy_database(work: &Work, database: &Path, new: &NewFolder) -> Result<Report, Failure> {
    let mut bars = Bars::default();
    let mut report = |progress| bars.backup(progress);
    let mut watch = BackupWatch { stop: Arc::clone(&work.stop), report: &mut report, removed: &mut note_removed };
    let target = new.path().join(Part::Database.file_name());
    let done = open_store::backup(database, &target, &work.options, &mut watch);
    drop(bars);
    done.map(|done| done.report).map_err(|error| backup_failure(error, "backup", work.output))
}
