//! Asks before many tasks are changed. Programs cannot be asked and have to say --yes.

use std::io::{self, BufRead, IsTerminal, Write};

use crate::args::ConsentArgs;
use crate::failure::Failure;

/// Goes on only if somebody says yes to `question`.
pub(crate) fn confirm(question: &str, consent: ConsentArgs) -> Result<(), Failure> {
    if consent.yes {
        return Ok(());
    }
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        let question = question.trim_end_matches('?');
        return Err(Failure::Usage(format!("{question}: say --yes, because there is no terminal to ask on")));
    }
    let mut stderr = io::stderr();
    // If the question cannot be shown, the answer does not count either.
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
