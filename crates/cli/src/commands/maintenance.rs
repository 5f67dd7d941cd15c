//! `taskqueue check`, which looks for damage in a database of either kind or in a backup with secrets and changes nothing; `taskqueue
//! migrate`, which copies a database to another, empty one; and what they share with `backup` and `restore`: work that cannot be awaited
//! runs on a thread of its own, ends soon after Ctrl-C or SIGTERM without leaving anything half-done, and tells how far it is.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use taskqueue_core::soundness::Rule;
use taskqueue_core::words;
use taskqueue_store::check::{self, CheckError, Report, Step, Watch};
use taskqueue_store::transfer::{self, Totals, transfer};
use taskqueue_store_sqlite::{BackupError, BackupProgress};
use tokio::signal::unix::{SignalKind, signal};

use crate::args::{CheckArgs, Format, MigrateArgs, OutputArgs};
use crate::failure::Failure;
use crate::installation::{Manifest, Part};
use crate::open_store::{self, Database};
use crate::output::{self, CheckRecord, CheckedFolder, Printer, problem_line, warning};
use crate::progress::Progress;

/// A flag that a signal sets to end the work.
pub(super) fn stop_flag() -> Result<Arc<AtomicBool>, Failure> {
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
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    tokio::task::spawn_blocking(work).await.map_err(Failure::because("the command failed"))?
}

/// The bars of a command, one after the other.
#[derive(Default)]
pub(super) struct Bars {
    shown: Option<(&'static str, Progress)>,
}

impl Bars {
    pub(super) fn backup(&mut self, progress: BackupProgress) {
        match progress {
            BackupProgress::Copying { done, of } => self.show("copying", done, of, Progress::of_copied_bytes),
            BackupProgress::Checking(progress) => self.check(progress),
        }
    }

    pub(super) fn check(&mut self, progress: check::Progress) {
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

pub(super) fn check_failure(error: CheckError) -> Failure {
    match error {
        CheckError::Refused(why) => Failure::Refused(why),
        CheckError::Interrupted => Failure::Interrupted("the check was interrupted; nothing was changed".into()),
    }
}

/// `doing` names the command in the words of "the backup was interrupted".
pub(super) fn backup_failure(error: BackupError, doing: &str, output: OutputArgs) -> Failure {
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
pub(super) fn print_problems(report: &Report, output: OutputArgs) -> Result<(), Failure> {
    let printer = Printer::new(output);
    let problems = &report.findings.problems;
    match printer.format() {
        Format::Table => problems.iter().try_for_each(|problem| printer.text(&problem_line(problem)))?,
        _ => printer.list(problems)?,
    }
    if report.findings.more > 0 {
        output::note(&format!("and {} more", report.findings.more));
    }
    Ok(())
}

/// Says so if less was checked than usual.
pub(super) fn note_older_schema(report: &Report) {
    if !report.rules_checked && report.findings.is_sound() {
        output::note(&format!(
            "the database has schema version {}, which is older than this program: its files were checked, its tasks were \
             not; a server of this version brings it up to date when it starts",
            report.schema
        ));
    }
}

/// Says that a file is gone which nobody would have missed, but whose name somebody may have seen.
pub(super) fn note_removed(file: &Path) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_says_what_was_copied() {
        let copied = Totals { queues: 1, observations: 4, running: 17, ..Totals::default() };
        assert_eq!(summary(&copied, 2.06), "copied 1 queue, 0 tasks (17 running), 4 observations in 2.1 s");
    }
}
