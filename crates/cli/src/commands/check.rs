//! `taskqueue check`: looks for damage in a database of either kind, or in a backup with secrets, and changes nothing.

use std::path::PathBuf;

use taskqueue_core::soundness::Rule;
use taskqueue_core::words;
use taskqueue_store::check::{CheckError, Report, Watch};

use super::maintenance::{Bars, blocking, check_failure, note_older_schema, print_problems, stop_flag};
use crate::args::{CheckArgs, Format};
use crate::failure::Failure;
use crate::installation::{Manifest, Part};
use crate::open_store::{self, Database};
use crate::output::{CheckRecord, CheckedFolder, Printer, warning};

pub(crate) async fn run(args: CheckArgs) -> Result<(), Failure> {
    let CheckArgs { given, folder, database, database_schema, output } = args;
    if let (Some(_), Some(flag)) = (&folder, given.0) {
        return Err(Failure::Usage(format!(
            "{flag} names a database, and DIR a backup, which has its own; name one of them"
        )));
    }
    let (report, folder) = match folder {
        Some(folder) => check_folder(folder).await?,
        None => (check(database, database_schema).await?, None),
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
            let mut bars = Bars::default();
            let mut tell = |progress| bars.check(progress);
            let database = folder.join(Part::Database.file_name());
            let checked = open_store::check_file(&database, &mut Watch { stop, report: &mut tell });
            report = checked.map_err(check_failure)?;
        }
        problems.into_iter().for_each(|(_, what)| report.findings.add(Rule::Manifest, what));
        let files = manifest.entries.len() as u64;
        Ok((report, Some(CheckedFolder { files, has_database })))
    })
    .await
}

async fn check(database: Database, schema: Option<String>) -> Result<Report, Failure> {
    let stop = stop_flag()?;
    if let Database::Sqlite(path) = &database {
        open_store::refuse_schema(&database, schema.as_deref())?;
        let path = path.clone();
        return blocking(move || {
            let mut bars = Bars::default();
            let mut report = |progress| bars.check(progress);
            open_store::check_file(&path, &mut Watch { stop, report: &mut report }).map_err(check_failure)
        })
        .await;
    }
    let mut bars = Bars::default();
    let mut report = |progress| bars.check(progress);
    let mut watch = Watch { stop: stop.clone(), report: &mut report };
    // A statement that lasts long is left behind; the connection ends with the program.
    let stopped = async {
        while !stop.load(std::sync::atomic::Ordering::Relaxed) {
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
        Err(CheckError::Interrupted)
    };
    let checked = open_store::check_schema(&database, schema.as_deref(), &mut watch);
    let found = tokio::select! { found = checked => found, stopped = stopped => stopped };
    found.map_err(check_failure)
}
