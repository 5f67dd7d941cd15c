//! `taskqueue check`: looks for damage in a database of either kind, and changes nothing.

use taskqueue_store::check::{CheckError, Report, Watch};

use super::maintenance::{Bars, blocking, check_failure, note_older_schema, print_problems, stop_flag};
use crate::args::{CheckArgs, Format};
use crate::failure::Failure;
use crate::open_store::{self, Database};
use crate::output::{CheckRecord, Printer, counted};

pub(crate) async fn run(args: CheckArgs) -> Result<(), Failure> {
    let CheckArgs { database, database_schema, output } = args;
    let report = check(database, database_schema).await?;
    note_older_schema(&report);
    let record = CheckRecord { report: &report };
    // Programs get one value with everything, people the problems and what follows from them.
    match output.format() {
        Format::Table if report.findings.is_sound() => Printer::new(output).text(&record.sentence())?,
        Format::Table => print_problems(&report, output)?,
        _ => Printer::new(output).one(&record)?,
    }
    if report.findings.is_sound() {
        return Ok(());
    }
    let problems = counted(report.findings.count(), "problem");
    Err(Failure::Refused(format!(
        "{problems} in the database; keep a copy of it, and restore a backup that taskqueue check finds sound"
    )))
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
