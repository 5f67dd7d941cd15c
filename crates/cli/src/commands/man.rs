//! `taskqueue man`: the manual pages, generated from the help texts.

use std::io;

use clap_mangen::Man;

use crate::args::{self, ManArgs, OutputArgs};
use crate::failure::Failure;
use crate::output::Printer;

pub(crate) fn run(args: &ManArgs) -> Result<(), Failure> {
    let command = args::command_line();
    let refused = |error: io::Error| Failure::Refused(format!("the manual cannot be written: {error}"));
    let Some(directory) = &args.directory else {
        let mut page = Vec::new();
        Man::new(command).render(&mut page).map_err(refused)?;
        return Printer::new(OutputArgs::TABLE).text(&String::from_utf8_lossy(&page));
    };
    std::fs::create_dir_all(directory).and_then(|()| clap_mangen::generate_to(command, directory)).map_err(refused)
}
