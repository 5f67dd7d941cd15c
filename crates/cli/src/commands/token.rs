//! `taskqueue token ...`: makes tokens and checks files of them. No server is asked.

use taskqueue_core::access::{Grant, QueuePattern, TOKEN_BYTES, token_text};
use taskqueue_core::time::Timestamp;
use taskqueue_server::auth::digest;

use crate::args::{CreateTokenArgs, Format, TokenArgs, TokenCommand};
use crate::failure::Failure;
use crate::output::{self, NewTokenRecord, Printer, now};
use crate::tokens_file::{self, FileToken};

pub(crate) fn run(args: &TokenArgs) -> Result<(), Failure> {
    let printer = Printer::new(args.output);
    match &args.command {
        TokenCommand::Create(args) => create(args, &printer),
        TokenCommand::Check(args) => {
            let tokens = tokens_file::load(&args.file).map_err(Failure::Refused)?;
            printer.list(&tokens)?;
            if tokens.is_empty() {
                output::note("there are no tokens in it; make one with: taskqueue token create NAME --scope SCOPE");
            }
            Ok(())
        }
    }
}

fn create(args: &CreateTokenArgs, printer: &Printer) -> Result<(), Failure> {
    let now = now();
    let expires_at = args
        .expires_at
        .or_else(|| args.expires_in.map(|time| now.plus_seconds(i64::try_from(time.as_secs()).unwrap_or(i64::MAX))));
    if expires_at.is_some_and(|end| end <= now) {
        return Err(Failure::Usage("--expires-at is in the past".to_owned()));
    }
    // What the file would not take back.
    if expires_at.is_some_and(|end| Timestamp::parse(&end.to_string()).is_none()) {
        return Err(Failure::Usage("--expires-in ends after the year 9999".to_owned()));
    }
    let mut random = [0; TOKEN_BYTES];
    getrandom::fill(&mut random).map_err(Failure::because("the system gives no random numbers"))?;
    let token = token_text(&random);
    let all = || QueuePattern::parse("*").into_iter().collect();
    let queues = if args.queues.is_empty() { all() } else { args.queues.clone() };
    let entry = FileToken {
        name: args.name.clone(),
        digest: digest(token.as_bytes()),
        grant: Grant { scopes: args.scopes.iter().copied().collect(), queues },
        expires_at,
    };
    // First: a token that is not in the file is worth nothing.
    if let Some(file) = &args.append {
        tokens_file::append(file, &entry).map_err(Failure::Refused)?;
    }
    if printer.format() != Format::Table {
        return printer.one(&NewTokenRecord { token: &token, entry: &entry });
    }
    printer.text(&token)?;
    match &args.append {
        Some(file) => output::note(&format!("keep the token, it is not shown again; added to {}", file.display())),
        None => {
            output::note("keep the token, it is not shown again; the lines for the file of serve --tokens:");
            output::excerpt(&entry.to_string());
        }
    }
    Ok(())
}
