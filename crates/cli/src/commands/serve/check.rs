//! `taskqueue serve --check`: reads what a start would read, and prints what would count. It opens no port and no database, and writes
//! nothing, so that it can run beside the server that it is about.

use std::path::Path;

use taskqueue_server::{ListenAddress, Listener};

use super::cannot_listen;
use crate::args::{OutputArgs, ServeArgs};
use crate::config::Setting;
use crate::failure::Failure;
use crate::open_store::{self, Database};
use crate::output::{Printer, SettingRecord};
use crate::{server_tls, token, tokens_file, unknown_variables};

/// All problems at once are one failure: whoever corrects one should not have to ask again for the next.
pub(crate) async fn check(args: ServeArgs) -> Result<(), Failure> {
    unknown_variables::warn_of_them();
    let problems = problems(&args).await;
    if !problems.is_empty() {
        return Err(Failure::Usage(problems.join("; ")));
    }
    let settings: Vec<Setting> = args.settings.into_iter().chain([token_setting()]).collect();
    let records: Vec<SettingRecord<'_>> = settings.iter().map(SettingRecord).collect();
    Printer::new(OutputArgs::of(args.output)).list(&records)
}

/// The one setting that is no flag. Its value is never shown.
fn token_setting() -> Setting {
    let (value, source) = match std::env::var_os(token::VARIABLE) {
        Some(_) => ("set, not shown", format!("environment {}", token::VARIABLE)),
        None => ("not set", "default".to_owned()),
    };
    Setting { name: "token".to_owned(), value: value.to_owned(), source }
}

async fn problems(args: &ServeArgs) -> Vec<String> {
    let token = token::load(args.secrets.token_file.as_deref(), std::env::var_os(token::VARIABLE));
    let tokens = args.secrets.tokens.as_deref().map(tokens_file::load).transpose();
    // A file that cannot be read may hold a token: that is one problem and not two.
    let has_token = match (&token, &tokens) {
        (Ok(None), Ok(tokens)) => tokens.as_ref().is_some_and(|tokens| !tokens.is_empty()),
        _ => true,
    };
    let outcomes = [
        token.map(drop),
        tokens.map(drop).map_err(Failure::Refused),
        check_address(Some(&args.listen), has_token, "--listen").await,
        // Metrics need no token.
        check_address(args.metrics_listen.as_ref(), true, "--metrics-listen").await,
        server_tls::check(&args.listen, &args.secrets.tls, &args.database),
        open_store::refuse_schema(&args.database, args.database_schema.as_deref()),
        check_folder(&args.database),
    ];
    let failures = outcomes.into_iter().filter_map(Result::err);
    failures.filter_map(|failure| failure.message().map(str::to_owned)).collect()
}

async fn check_address(address: Option<&ListenAddress>, has_token: bool, flag: &str) -> Result<(), Failure> {
    let Some(address) = address else { return Ok(()) };
    Listener::check(address, has_token).await.map(drop).map_err(|error| cannot_listen(&error, flag))
}

/// An SQLite file may be missing, its folder not.
fn check_folder(database: &Database) -> Result<(), Failure> {
    let Database::Sqlite(path) = database else { return Ok(()) };
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let problem = if path.is_dir() {
        format!("the database {} is a folder; name a file", path.display())
    } else if !folder.is_dir() {
        format!("there is no folder {} for the database", folder.display())
    } else {
        return Ok(());
    };
    Err(Failure::Refused(problem))
}
