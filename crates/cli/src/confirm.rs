//! Asks for confirmation before many tasks are changed. Without a terminal --yes is required.

use std::io::{self, BufRead, IsTerminal, Write};

use crate::args::ConfirmArgs;
use crate::failure::Failure;

pub(crate) fn confirm(question: &str, args: ConfirmArgs) -> Result<(), Failure> {
    if args.yes {
        return Ok(());
    }
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        let question = question.trim_end_matches('?');
        return Err(Failure::Usage(format!("{question}: add --yes, because there is no terminal to ask on")));
    }
    let mut stderr = io::stderr();
    // Without the question on the screen the answer does not count.
    let asked = write!(stderr, "{question} [y/N] ").and_then(|()| stderr.flush());
    let mut answer = String::new();
    let answered = asked.and_then(|()| io::stdin().lock().read_line(&mut answer));
    match answered {
        Ok(_) if is_yes(&answer) => Ok(()),
        _ => Err(Failure::Refused("nothing was changed".to_owned())),
    }
}

fn is_yes(answer: &str) -> bool {
    matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes")
}
