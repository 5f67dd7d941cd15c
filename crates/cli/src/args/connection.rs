//! Flags of every client command: the server, the queue, the output format. `config/` adds the environment and the
//! configuration files.

use std::path::PathBuf;

use clap::{ArgMatches, Args, ValueEnum};
use taskqueue_core::ids::QueueName;

use super::values::queue_name;

/// The heading of these flags in the help.
const HEADING: &str = "Connection and output";

#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ConnectionArgs {
    /// The server: http://HOST:PORT, https://HOST or unix:PATH [env: TASKQUEUE_URL]
    #[arg(long, value_name = "URL", global = true, help_heading = HEADING)]
    pub(crate) url: Option<String>,

    /// A file with the token [env: TASKQUEUE_TOKEN, the token itself]
    #[arg(long, value_name = "PATH", global = true, help_heading = HEADING)]
    pub(crate) token_file: Option<PathBuf>,

    /// Trust the server with this key (https only), as it prints it: sha256:... [env: TASKQUEUE_TLS_PIN]
    #[arg(long, value_name = "PIN", global = true, conflicts_with = "tls_ca", help_heading = HEADING)]
    pub(crate) tls_pin: Option<String>,

    /// Trust certificates of the authorities in this PEM file only (https only) [env: TASKQUEUE_TLS_CA]
    #[arg(long, value_name = "FILE", global = true, help_heading = HEADING)]
    pub(crate) tls_ca: Option<PathBuf>,

    /// Send the token unencrypted (plain HTTP) to another machine
    #[arg(long, global = true, help_heading = HEADING)]
    pub(crate) allow_insecure_token: bool,
}

#[derive(Clone, Debug, Default, Args)]
pub(crate) struct QueueArg {
    /// The queue, "default" if none is named [env: TASKQUEUE_QUEUE]
    #[arg(short, long, value_name = "NAME", global = true, value_parser = queue_name, help_heading = HEADING)]
    pub(crate) queue: Option<QueueName>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Args)]
pub(crate) struct OutputArgs {
    /// The format of results on standard output; a table if none is named
    #[arg(short, long, value_enum, value_name = "FORMAT", global = true, default_value_t = Format::Table,
          hide_default_value = true, help_heading = HEADING)]
    output: Format,

    /// CSV with every value as it is, also what a spreadsheet would run as a formula
    #[arg(long, global = true, help_heading = HEADING)]
    pub(crate) raw_csv: bool,
}

impl OutputArgs {
    /// For commands that only people call.
    pub(crate) const TABLE: Self = Self { output: Format::Table, raw_csv: false };

    /// For a command that has a flag of its own for the format.
    pub(crate) fn of(format: Option<Format>) -> Self {
        Self { output: format.unwrap_or(Format::Table), ..Self::TABLE }
    }

    /// What is wrong if the flags of a command ask for raw CSV and for another format.
    pub(super) fn contradiction(matches: &ArgMatches) -> Option<String> {
        // Commands without these flags, and with an output of another kind, have no contradiction.
        let is_raw = matches.try_get_one::<bool>("raw_csv").ok().flatten().copied()?;
        let format = matches.try_get_one::<Format>("output").ok().flatten().copied()?;
        let is_other = is_raw && !matches!(format, Format::Table | Format::Csv);
        let name = format.to_possible_value().filter(|_| is_other)?;
        Some(format!("the argument '--raw-csv' cannot be used with '--output {}'", name.get_name()))
    }

    /// Who asks for raw CSV asks for CSV.
    pub(crate) fn format(self) -> Format {
        if self.raw_csv { Format::Csv } else { self.output }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people: aligned columns, times as ages
    Table,
    /// For programs: one JSON value, with the fields of the HTTP API
    Json,
    /// For programs: one JSON object per line
    Jsonl,
    /// For spreadsheets and data frames: a header line, then comma-separated values
    Csv,
    /// For scripts: only ids, names or counts, one per line
    Quiet,
}
