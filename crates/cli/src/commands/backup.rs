//! `taskqueue backup`: a copy of an SQLite database while its server runs. The copy itself is in the backend; with the secrets of
//! the installation it is a folder (`with_secrets.rs`).

mod with_secrets;

use std::path::PathBuf;
use std::time::Instant;

use taskqueue_store_sqlite::{BackedUp, BackupOptions, BackupWatch};

use super::maintenance::{Bars, backup_failure, blocking, note_older_schema, note_removed, stop_flag};
use crate::args::{BackupArgs, OutputArgs};
use crate::failure::Failure;
use crate::open_store::{self, Database};
use crate::output::{BackupRecord, Printer};

const POSTGRES: &str = "backup copies SQLite files; back up PostgreSQL with pg_dump or continuous archiving, as docs/backup.md \
    says, and check it with taskqueue check";

pub(crate) async fn run(args: BackupArgs) -> Result<(), Failure> {
    if args.with_secrets {
        return with_secrets::run(args).await;
    }
    let BackupArgs { database, to, with_secrets: _, replace, rate, secrets, output } = args;
    if let Some(flag) = secrets.first_flag() {
        return Err(Failure::Usage(format!(
            "{flag} is for --with-secrets; a backup in a file is of the database alone"
        )));
    }
    let Database::Sqlite(path) = database else { return Err(Failure::Usage(POSTGRES.to_owned())) };
    let (began, stop) = (Instant::now(), stop_flag()?);
    let options = BackupOptions { bytes_per_second: u64::from(rate) << 20, replace };
    let target = to.clone();
    let done = blocking(move || {
        let mut bars = Bars::default();
        let mut report = |progress| bars.backup(progress);
        let mut watch = BackupWatch { stop, report: &mut report, removed: &mut note_removed };
        let done = open_store::backup(&path, &target, &options, &mut watch);
        drop(bars);
        done.map_err(|error| backup_failure(error, "backup", output))
    })
    .await?;
    print(&done, "backed up", to, began, output)
}

/// Also for `restore`.
pub(super) fn print(
    done: &BackedUp,
    verb: &'static str,
    file: PathBuf,
    began: Instant,
    output: OutputArgs,
) -> Result<(), Failure> {
    note_older_schema(&done.report);
    let record = BackupRecord {
        file: file.display().to_string(),
        bytes: done.bytes,
        report: &done.report,
        seconds: began.elapsed().as_secs_f64(),
    };
    Printer::new(output).done(&record, &record.sentence(verb))
}
