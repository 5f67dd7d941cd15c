//! `taskqueue backup` and `restore`: a copy of an SQLite database while its server runs, and back. The copy itself is in the backend.
//! With the secrets of the installation it is a folder (docs/decisions/0056), which is put back as a whole: secrets come first and the
//! database last; its place is free until everything else is there, so that a restore that was killed can be run again.
//!
//! `taskqueue check`, which looks for damage in a database of either kind or in a backup with secrets and changes nothing; `taskqueue
//! migrate`, which copies a database to another, empty one. In all of them work that cannot be awaited runs on a thread of its own, ends soon
//! after Ctrl-C or SIGTERM without leaving anything half-done, and tells how far it is.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use taskqueue_core::soundness::Rule;
use taskqueue_core::words;
use taskqueue_store::check::{self, CheckError, Report, Step, Watch};
use taskqueue_store::transfer::{self, Totals, transfer};
use taskqueue_store_sqlite::{BackedUp, BackupError, BackupOptions, BackupProgress, BackupWatch, backup, restore};
use tokio::signal::unix::{SignalKind, signal};

use crate::args::{BackupArgs, CheckArgs, Format, MigrateArgs, OutputArgs, RestoreArgs};
use crate::failure::Failure;
use crate::installation::{
    Entry, MANIFEST, Manifest, NewFolder, Part, PutBack, Secret, place_of, read_secrets, whole_path,
};
use crate::open_store::{self, Database};
use crate::output::{
    self, BackupRecord, CheckRecord, CheckedFolder, FolderFile, FolderRecord, Printer, Progress, note, problem_line,
    warning,
};

/// A flag that a signal sets to end the work.
fn stop_flag() -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    for kind in [SignalKind::interrupt(), SignalKind::terminate()] {
        let mut listening = signal(kind).map_err(Failure::because("cannot wait for signals"))?;
        let stop = Arc::clone(&stop);
        tokio::spawn(async move {
            listening.recv().await;
            stop.store(true, Ordering::Relaxed);
        });
    }
    Ok(stop)
}

/// Runs work that blocks its thread.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T, Failure> + Send + 'static) -> Result<T, Failure> {
    tokio::task::spawn_blocking(work).await.map_err(Failure::because("the command failed"))?
}

/// The bars of a command, one after the other.
#[derive(Default)]
struct Bars {
    shown: Option<(&'static str, Progress)>,
}

impl Bars {
    fn backup(&mut self, progress: BackupProgress) {
        match progress {
            BackupProgress::Copying { done, of } => self.show("copying", done, of, Progress::of_copied_bytes),
            BackupProgress::Checking(progress) => self.check(progress),
        }
    }

    fn check(&mut self, progress: check::Progress) {
        let check::Progress { step, done, of } = progress;
        match step {
            Step::Engine => self.show("checking the file", done, of, |verb, _| Progress::spinner(verb)),
            Step::Tasks => self.show("checking tasks", done, of, Progress::of_tasks),
            Step::Derived => self.show("checking run ids and counts", done, of, Progress::of_tasks),
        }
    }

    fn transfer(&mut self, progress: transfer::Progress) {
        let verb = match progress.step {
            transfer::Step::Copying => "copying",
            transfer::Step::Verifying => "verifying",
        };
        self.show(verb, progress.done, progress.tasks, Progress::of_tasks);
    }

    fn show(&mut self, verb: &'static str, done: u64, of: u64, new: impl FnOnce(&'static str, u64) -> Progress) {
        if self.shown.as_ref().is_none_or(|(shown, _)| *shown != verb) {
            self.shown = Some((verb, new(verb, of)));
        }
        if let Some((_, bar)) = &self.shown {
            bar.set_total(of);
            bar.set_position(done);
        }
    }
}

fn check_failure(error: CheckError) -> Failure {
    match error {
        CheckError::Refused(why) => Failure::Refused(why),
        CheckError::Interrupted => Failure::Interrupted("the check was interrupted; nothing was changed".into()),
    }
}

/// `doing` names the command in the words of "the backup was interrupted".
fn backup_failure(error: BackupError, doing: &str, output: OutputArgs) -> Failure {
    match error {
        BackupError::Refused(why) => Failure::Refused(why),
        BackupError::Interrupted => Failure::Interrupted(format!("the {doing} was interrupted; nothing was changed")),
        BackupError::Unsound(report) => match print_problems(&report, output) {
            Ok(()) => {
                let problems = words::count(report.findings.count(), "problem");
                Failure::Refused(format!("{problems}, so nothing was changed; the lines above say which"))
            }
            Err(failure) => failure,
        },
    }
}

/// Prints each problem; for people one line each.
fn print_problems(report: &Report, output: OutputArgs) -> Result<(), Failure> {
    let printer = Printer::new(output);
    let problems = &report.findings.problems;
    match printer.format {
        Format::Table => problems.iter().try_for_each(|problem| printer.text(&problem_line(problem)))?,
        _ => printer.list(problems)?,
    }
    if report.findings.more > 0 {
        output::note(&format!("and {} more", report.findings.more));
    }
    Ok(())
}

/// Says so if less was checked than usual.
fn note_older_schema(report: &Report) {
    if !report.rules_checked && report.findings.is_sound() {
        output::note(&format!(
            "the database has schema version {}, which is older than this program: its files were checked, its tasks were \
             not; a server of this version brings it up to date when it starts",
            report.schema
        ));
    }
}

/// Says that a file is gone which nobody would have missed, but whose name somebody may have seen.
fn note_removed(file: &Path) {
    output::note(&format!("removed {}, which a backup or restore that was killed had left", file.display()));
}

pub(crate) async fn run_check(args: CheckArgs) -> Result<(), Failure> {
    let CheckArgs { folder, database, database_schema, output, database_flag } = args;
    if let (Some(_), Some(flag)) = (&folder, database_flag) {
        return Err(Failure::Usage(format!(
            "{flag} names a database, and DIR a backup, which has its own; name one of them"
        )));
    }
    let (report, folder) = match folder {
        Some(folder) => check_folder(folder).await?,
        None => (check_database(database, database_schema).await?, None),
    };
    note_older_schema(&report);
    let record = CheckRecord { report: &report, folder };
    // Programs get one value with everything, people the problems and what follows from them.
    match output.format() {
        Format::Table if report.findings.is_sound() => Printer::new(output).text(&record.sentence())?,
        Format::Table => print_problems(&report, output)?,
        _ => Printer::new(output).one(&record)?,
    }
    if report.findings.is_sound() {
        return Ok(());
    }
    let problems = words::count(report.findings.count(), "problem");
    Err(Failure::Refused(match folder {
        Some(_) => format!("{problems} in the backup; restore another one that taskqueue check finds sound"),
        None => format!(
            "{problems} in the database; keep a copy of it, and restore a backup that taskqueue check finds sound"
        ),
    }))
}

/// Compares each file of a backup with its manifest, says which secrets others can read, and checks the database in it. One that
/// is not what was written is not checked further, which would only say the same again.
async fn check_folder(folder: PathBuf) -> Result<(Report, Option<CheckedFolder>), Failure> {
    let stop = stop_flag()?;
    blocking(move || {
        let manifest = Manifest::read(&folder)?;
        manifest.open_to_others(&folder).iter().for_each(|what| warning(what));
        let problems = manifest.problems(&folder, &stop)?;
        let has_database = manifest.has(Part::Database);
        let is_whole = has_database && !problems.iter().any(|(part, _)| *part == Part::Database);
        let mut report = Report { rules_checked: true, ..Report::default() };
        if is_whole {
            report = check_file(&folder.join(Part::Database.file_name()), stop)?;
        }
        problems.into_iter().for_each(|(_, what)| report.findings.add(Rule::Manifest, what));
        let files = manifest.entries.len() as u64;
        Ok((report, Some(CheckedFolder { files, has_database })))
    })
    .await
}

async fn check_database(database: Database, schema: Option<String>) -> Result<Report, Failure> {
    let stop = stop_flag()?;
    open_store::refuse_schema("--database-schema", &database, schema.as_deref())?;
    let address = match database {
        Database::Sqlite(path) => return blocking(move || check_file(&path, stop)).await,
        Database::Postgres(address) => address,
    };
    let mut bars = Bars::default();
    let mut report = |progress| bars.check(progress);
    let mut watch = Watch { stop: stop.clone(), report: &mut report };
    // A statement that lasts long is left behind; the connection ends with the program.
    let stopped = async {
        while !stop.load(Ordering::Relaxed) {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Err(CheckError::Interrupted)
    };
    let checked = open_store::check_schema(&address, schema.as_deref(), &mut watch);
    let found = tokio::select! { found = checked => found, stopped = stopped => stopped };
    found.map_err(check_failure)
}

fn check_file(path: &Path, stop: Arc<AtomicBool>) -> Result<Report, Failure> {
    let mut bars = Bars::default();
    let mut report = |progress| bars.check(progress);
    taskqueue_store_sqlite::check(path, &mut Watch { stop, report: &mut report }).map_err(check_failure)
}

pub(crate) async fn run_migrate(args: MigrateArgs) -> Result<(), Failure> {
    let began = Instant::now();
    // The source first: without it no target is created.
    let mut source = open_store::source(&args.from, args.from_schema.as_deref()).await?;
    let target = open_store::target(&args.to, args.to_schema.as_deref()).await?;
    let mut bars = Bars::default();
    let copied = transfer(&mut *source, target, &mut |progress| bars.transfer(progress)).await;
    drop(bars);
    let copied = copied.map_err(|error| Failure::Refused(error.to_string()))?;
    output::text(&summary(&copied, began.elapsed().as_secs_f64()));
    Ok(())
}

fn summary(copied: &Totals, seconds: f64) -> String {
    let (queues, tasks) = (words::count(copied.queues, "queue"), words::count(copied.tasks(), "task"));
    let observations = words::count(copied.observations, "observation");
    format!("copied {queues}, {tasks} ({} running), {observations} in {seconds:.1} s", copied.running)
}

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
        if database.canonicalize().is_ok_and(|path| path.starts_with(&new.place)) {
            let shown = to.display();
            return Err(Failure::Refused(format!("{shown} has the database itself in it; choose another --to")));
        }
        let copy = new.path.join(Part::Database.file_name());
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
    missing.iter().try_for_each(|(secret, place)| put.put(secret, place, &mut note_removed))?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_says_what_was_copied() {
        let copied = Totals { queues: 1, observations: 4, running: 17, ..Totals::default() };
        assert_eq!(summary(&copied, 2.06), "copied 1 queue, 0 tasks (17 running), 4 observations in 2.1 s");
    }
}
