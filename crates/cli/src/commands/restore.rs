//! `taskqueue restore`: puts a backup in the place of an SQLite database. A folder with secrets is put back as a whole
//! (`with_secrets.rs`).

mod with_secrets;

use std::time::Instant;

use taskqueue_store_sqlite::BackupWatch;

use super::backup::print;
use super::maintenance::{Bars, backup_failure, blocking, note_removed, stop_flag};
use crate::args::RestoreArgs;
use crate::failure::Failure;
use crate::open_store::{self, Database};

const POSTGRES: &str =
    "restore puts SQLite files in their place; restore PostgreSQL with pg_restore, as docs/backup.md says";

pub(crate) async fn run(args: RestoreArgs) -> Result<(), Failure> {
    if args.from.is_dir() {
        return with_secrets::run(args).await;
    }
    let RestoreArgs { from, database, replace, secrets, output } = args;
    let Database::Sqlite(path) = database else { return Err(Failure::Usage(POSTGRES.to_owned())) };
    if let Some(flag) = secrets.first_flag() {
        let why = "is for a folder of backup --with-secrets; --from is a file, which holds the database alone";
        return Err(Failure::Usage(format!("{flag} {why}")));
    }
    let (began, stop, target) = (Instant::now(), stop_flag()?, path.clone());
    let done = blocking(move || {
        let mut bars = Bars::default();
        let mut report = |progress| bars.backup(progress);
        let mut watch = BackupWatch { stop, report: &mut report, removed: &mut note_removed };
        let done = open_store::restore(&from, &target, replace, &mut watch);
        drop(bars);
        done.map_err(|error| backup_failure(error, "restore", output))
    })
    .await?;
    print(&done, "restored", path, began, output)
}
