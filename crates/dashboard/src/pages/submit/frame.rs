//! What the pages of the three ways to give tasks share: their tabs, what their forms want, and the command that does the same.

use taskqueue_core::ids::QueueName;

use crate::address::Query;
use crate::layout::{Section, Shell};
use crate::problem::Problem;
use crate::show;
use crate::visit::Visit;

/// Longer commands are not shown: shells do not take them.
pub(super) const COMMAND_BYTES: usize = 16 * 1024;
/// Characters that a preview shows of a value.
const CELL_CHARS: usize = 160;

/// How tasks are given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    One,
    Sweep,
    Lines,
}

impl Way {
    /// Each with its word in addresses, and its title.
    pub(super) const ALL: [(Self, &'static str, &'static str); 3] =
        [(Self::One, "one", "One task"), (Self::Sweep, "sweep", "Sweep"), (Self::Lines, "lines", "Lines")];

    pub(super) fn of(query: &Query) -> Self {
        let chosen = Self::ALL.into_iter().find(|(_, word, _)| query.get("way") == Some(word));
        chosen.map_or(Self::One, |(way, ..)| way)
    }
}

/// What every page of the three has beside its shell.
pub(super) struct Frame {
    pub(super) way: Way,
    /// Where the forms go.
    pub(super) path: String,
    pub(super) queue: String,
    /// Whether everything was created that was asked for.
    pub(super) is_done: bool,
}

impl Frame {
    pub(super) async fn new(visit: &Visit, queue: &QueueName, way: Way) -> Result<(Shell, Self), Problem> {
        let shell = Shell::new(visit, format!("Submit to {queue}"), Section::Submit, Some(queue)).await?;
        if !shell.queues.iter().any(|name| name == queue.as_str()) {
            return Err(Problem::not_found("queue", "It may have been deleted. The overview shows all queues."));
        }
        let (queue, path, is_done) = (queue.to_string(), address(queue), visit.query.has("created"));
        Ok((shell, Self { way, path, queue, is_done }))
    }
}

pub(super) fn address(queue: &QueueName) -> String {
    format!("/ui/queues/{queue}/submit")
}

/// What a form wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FormStep {
    /// To know what is wrong; from a script that shows only that, so that nothing that was typed has to be sent back.
    Watch,
    Check,
    Create,
    /// Of many, create those that can be.
    CreateValid,
}

impl FormStep {
    pub(super) fn of(form: &Query) -> Self {
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
pub(super) enum Command {
    /// The form is empty, so it is an example.
    Example(String),
    Same(String),
    /// Something is wrong in the form.
    Wrong,
    /// No shell takes it, or no flags can say it.
    Unsayable,
}

impl Command {
    pub(super) fn of(command: Option<String>) -> Self {
        command.filter(|command| command.len() <= COMMAND_BYTES).map_or(Self::Unsayable, Self::Same)
    }

    /// Returns what can be copied.
    pub(super) fn text(&self) -> Option<&str> {
        match self {
            Self::Example(text) | Self::Same(text) => Some(text),
            Self::Wrong | Self::Unsayable => None,
        }
    }

    /// Returns what is said instead, or of it.
    pub(super) const fn note(&self) -> &'static str {
        match self {
            Self::Example(_) => "An example. When the form is filled in, its command stands here.",
            Self::Same(_) => "",
            Self::Wrong => "When what is wrong in the form is mended, its command stands here.",
            Self::Unsayable => {
                "This is too long for a shell, or has a retry delay that the flags cannot say. A file of lines can: task submit --from."
            }
        }
    }
}

/// The beginning of a text, for a cell of a table.
pub(super) fn cut(text: &str) -> String {
    show::cut(text, CELL_CHARS).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_that_of_the_form_or_there_is_a_word_about_it() {
        let short = Command::of(Some("taskqueue task submit".to_owned()));
        assert_eq!((short.text(), short.note()), (Some("taskqueue task submit"), ""));
        for none in [None, Some("x".repeat(COMMAND_BYTES + 1))] {
            assert_eq!(Command::of(none), Command::Unsayable);
        }
        for command in [Command::Wrong, Command::Unsayable] {
            assert!(command.text().is_none() && !command.note().is_empty(), "{command:?}");
        }
        assert!(Command::Example("x".to_owned()).note().starts_with("An example."));
    }
}
