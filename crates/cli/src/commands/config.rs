//! `taskqueue config show`. The token itself is never shown.

use crate::args::{ConfigArgs, ConfigCommand};
use crate::client_context::print_warnings;
use crate::config::ClientConfig;
use crate::failure::Failure;
use crate::output::{Printer, SettingRecord};

pub(crate) fn run(args: &ConfigArgs) -> Result<(), Failure> {
    let ConfigCommand::Show = args.command;
    let config = ClientConfig::load(&args.connection, &args.queue)?;
    print_warnings(&config);
    let settings = config.settings();
    let records: Vec<SettingRecord<'_>> = settings.iter().map(SettingRecord).collect();
    Printer::new(args.output).list(&records)
}
