//! `taskqueue completions SHELL`

use crate::args::{self, CompletionsArgs, OutputArgs};
use crate::failure::Failure;
use crate::output::Printer;

pub(crate) fn run(args: &CompletionsArgs) -> Result<(), Failure> {
    let mut script = Vec::new();
    let mut command = args::command_line();
    let name = command.get_name().to_owned();
    clap_complete::generate(args.shell, &mut command, name, &mut script);
    Printer::new(OutputArgs::TABLE).text(&String::from_utf8_lossy(&script))
}
