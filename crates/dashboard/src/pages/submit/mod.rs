//! New tasks: one by a form, many as a sweep, or many as lines of JSON. What a sweep, a name and a line mean is decided in `core` and
//! `api`, as for the command line; here they are shown before anything is created. Ids are in the form or derived from the tasks, so
//! a form that is sent twice creates nothing twice.

mod create;
mod lines;
mod one;
mod sweep;

use axum::body::Body;
use taskqueue_core::{QueueName, Scope};

use crate::address::Query;
use crate::layout::{PageResult, Section, Shell};
use crate::problem::Problem;
use crate::show;
use crate::visit::{LargeForm, Visit};

/// The largest form: browsers write most signs of JSON as three characters.
const FORM_BYTES: usize = 3 * lines::LINES_BYTES + 256 * 1024;

/// The page of the way that the address chooses.
pub(crate) async fn form(visit: Visit) -> PageResult {
    let queue = visit.queue_for(Scope::Submit)?;
    match Way::of(&visit.query) {
        Way::One => one::form(&visit, &queue).await,
        Way::Sweep => sweep::form(&visit, &queue).await,
        Way::Lines => lines::form(&visit, &queue).await,
    }
}

/// Checks what a form has, or creates it.
pub(crate) async fn submit(visit: Visit, body: Body) -> PageResult {
    let queue = visit.queue_for(Scope::Submit)?;
    let LargeForm { fields: form, turn, reserved: _reserved } = visit.large_form(body, FORM_BYTES).await?;
    match Way::of(&form) {
        Way::One => one::submit(&visit, &queue, &form, turn).await,
        // Its values stay parsed as long as tasks are made of them.
        Way::Sweep => sweep::submit(&visit, &queue, &form).await,
        Way::Lines => lines::submit(&visit, &queue, form, turn).await,
    }
}

/// Longer commands are not shown: shells do not take them.
const COMMAND_BYTES: usize = 16 * 1024;
/// Characters that a preview shows of a value.
const CELL_CHARS: usize = 160;

/// How tasks are given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    One,
    Sweep,
    Lines,
}

impl Way {
    /// Each with its word in addresses, and its title.
    const ALL: [(Self, &'static str, &'static str); 3] =
        [(Self::One, "one", "One task"), (Self::Sweep, "sweep", "Sweep"), (Self::Lines, "lines", "Lines")];

    fn of(query: &Query) -> Self {
        let chosen = Self::ALL.into_iter().find(|(_, word, _)| query.get("way") == Some(word));
        chosen.map_or(Self::One, |(way, ..)| way)
    }
}

/// What every page of the three has beside its shell.
struct Frame {
    way: Way,
    /// Where the forms go.
    path: String,
    queue: String,
    /// True if everything was created that was asked for.
    is_done: bool,
}

impl Frame {
    async fn new(visit: &Visit, queue: &QueueName, way: Way) -> Result<(Shell, Self), Problem> {
        let shell = Shell::new(visit, format!("Submit to {queue}"), Section::Submit, Some(queue)).await?;
        if !shell.queues.iter().any(|name| name == queue.as_str()) {
            return Err(Problem::not_found("queue", "It may have been deleted. The overview shows all queues."));
        }
        let (queue, path, is_done) = (queue.to_string(), address(queue), visit.query.has("created"));
        Ok((shell, Self { way, path, queue, is_done }))
    }
}

fn address(queue: &QueueName) -> String {
    format!("/ui/queues/{queue}/submit")
}

/// What a form wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FormStep {
    /// To know what is wrong; from a script that shows only that, so that nothing that was typed has to be sent back.
    Watch,
    Check,
    Create,
    /// Of many, create those that can be.
    CreateValid,
}

impl FormStep {
    fn of(form: &Query) -> Self {
        match form.get("step") {
            Some("watch") => Self::Watch,
            Some("create") => Self::Create,
            Some("create-valid") => Self::CreateValid,
            _ => Self::Check,
        }
    }
}

/// The command that does what a form would do.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Command {
    /// What can be copied.
    text: Option<String>,
    /// What is said instead, or of it.
    note: &'static str,
}

impl Command {
    /// Something is wrong in the form.
    const WRONG: Self = Self { text: None, note: "When what is wrong in the form is mended, its command stands here." };
    /// No shell takes it, or no flags can say it.
    const UNSAYABLE: Self = Self {
        text: None,
        note: "This is too long for a shell, or has a retry delay that the flags cannot say. A file of lines can: task submit --from.",
    };

    /// For a form that is empty.
    fn example(text: String) -> Self {
        Self { text: Some(text), note: "An example. When the form is filled in, its command stands here." }
    }

    fn of(command: Option<String>) -> Self {
        let short = command.filter(|command| command.len() <= COMMAND_BYTES);
        if short.is_some() { Self { text: short, note: "" } } else { Self::UNSAYABLE }
    }
}

/// The beginning of a text, for a cell of a table.
fn cut(text: &str) -> String {
    show::cut(text, CELL_CHARS).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_that_of_the_form_or_there_is_a_word_about_it() {
        let short = Command::of(Some("taskqueue task submit".to_owned()));
        assert_eq!((short.text.as_deref(), short.note), (Some("taskqueue task submit"), ""));
        for none in [None, Some("x".repeat(COMMAND_BYTES + 1))] {
            assert_eq!(Command::of(none), Command::UNSAYABLE);
        }
        for command in [Command::WRONG, Command::UNSAYABLE] {
            assert!(command.text.is_none() && !command.note.is_empty(), "{command:?}");
        }
        assert!(Command::example("x".to_owned()).note.starts_with("An example."));
    }
}
