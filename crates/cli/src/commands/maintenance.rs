//! What `backup`, `check` and `restore` share: work that cannot be awaited runs on a thread of its own, ends soon after Ctrl-C or
//! SIGTERM without leaving anything half-done, and tells how far it is.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use taskqueue_core::words;
use taskqueue_store::check::{self, CheckError, Report, Step};
use taskqueue_store_sqlite::{BackupError, BackupProgress};
use tokio::signal::unix::{SignalKind, signal};

use crate::args::{Format, OutputArgs};
use crate::failure::Failure;
use crate::output::{self, Printer, ProblemRecord};
use crate::progress::Progress;

/// Told to end by a signal.
pub(super) fn stop_flag() -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    for kind in [SignalKind::interrupt(), SignalKind::terminate()] {
        let listening = signal(kind);
        let mut listening = listening.map_err(|error| Failure::Refused(format!("cannot wait for signals: {error}")))?;
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
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => Err(Failure::Refused(format!("the command failed: {error}"))),
    }
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
    let problems: Vec<ProblemRecord<'_>> = report.findings.problems.iter().map(ProblemRecord).collect();
    match printer.format() {
        Format::Table => problems.iter().try_for_each(|problem| printer.text(&problem.line()))?,
        _ => printer.list(&problems)?,
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
