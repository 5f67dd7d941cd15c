//! New tasks: one by a form, many as a sweep, or many as lines of JSON. What a sweep, a name and a line mean is decided in `core` and
//! `api`, as for the command line; here they are shown before anything is created. Ids are in the form or derived from the tasks, so
//! a form that is sent twice creates nothing twice.

mod create;
mod fields;
mod lines;
mod one;
mod sweep;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::HeaderMap;
use axum::http::header::CONTENT_LENGTH;
use taskqueue_core::access::Scope;
use taskqueue_core::ids::QueueName;
use taskqueue_store::submission::Held;
use tokio::sync::MutexGuard;

use crate::address::Query;
use crate::form;
use crate::layout::{PageResult, Section, Shell};
use crate::problem::Problem;
use crate::show;
use crate::state::Dashboard;
use crate::visit::Visit;

/// The largest text of lines.
const LINES_BYTES: usize = 8 * 1024 * 1024;
/// The largest form: browsers write most signs of JSON as three characters.
const FORM_BYTES: usize = 3 * LINES_BYTES + 256 * 1024;
/// A form from here on takes more memory than every page has.
const LARGE_FORM_BYTES: usize = 512 * 1024;
/// Up to this the memory of a page is enough for what is parsed of a form.
const SMALL_FORM_BYTES: usize = 32 * 1024;
/// How often the text of a form is in memory while it is read.
const COPIES: usize = 3;
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
    const ALL: [Self; 3] = [Self::One, Self::Sweep, Self::Lines];

    const fn word(self) -> &'static str {
        match self {
            Self::One => "one",
            Self::Sweep => "sweep",
            Self::Lines => "lines",
        }
    }

    const fn title(self) -> &'static str {
        match self {
            Self::One => "One task",
            Self::Sweep => "Sweep",
            Self::Lines => "Lines",
        }
    }

    fn of(query: &Query) -> Self {
        Self::ALL.into_iter().find(|way| query.get("way") == Some(way.word())).unwrap_or(Self::One)
    }
}

/// One of the tabs.
struct Tab {
    title: &'static str,
    address: String,
    is_current: bool,
}

/// What every page of the three has beside its shell.
struct Frame {
    tabs: Vec<Tab>,
    /// Where the forms go.
    path: String,
    queue: String,
}

impl Frame {
    async fn new(dashboard: &Dashboard, visit: &Visit, queue: &QueueName, way: Way) -> Result<(Shell, Self), Problem> {
        let shell = Shell::new(dashboard, visit, format!("Submit to {queue}"), Section::Submit, Some(queue)).await?;
        if !shell.queues.iter().any(|name| name == queue.as_str()) {
            return Err(Problem::not_found("queue", "It may have been deleted. The overview shows all queues."));
        }
        let path = address(queue);
        let tab = |each: Way| Tab {
            title: each.title(),
            address: Query::default().and("way", each.word()).at(&path),
            is_current: each == way,
        };
        Ok((shell, Self { tabs: Way::ALL.map(tab).into(), path, queue: queue.as_str().to_owned() }))
    }
}

fn address(queue: &QueueName) -> String {
    format!("/ui/queues/{queue}/submit")
}

/// The page of the way that the address chooses.
pub(crate) async fn form(State(dashboard): State<Dashboard>, visit: Visit) -> PageResult {
    let queue = visit.queue()?;
    visit.check(Scope::Submit, &queue)?;
    match Way::of(&visit.query) {
        Way::One => one::form(&dashboard, &visit, &queue).await,
        Way::Sweep => sweep::form(&dashboard, &visit, &queue).await,
        Way::Lines => lines::form(&dashboard, &visit, &queue).await,
    }
}

/// Checks what a form has, or creates it.
pub(crate) async fn submit(State(dashboard): State<Dashboard>, visit: Visit, request: Request<Body>) -> PageResult {
    let queue = visit.queue()?;
    visit.check(Scope::Submit, &queue)?;
    let _room = room(&dashboard, &visit.headers).await?;
    let form = form::read(&visit, request.into_body(), FORM_BYTES).await?;
    let turn = turn(&dashboard, &form).await?;
    match Way::of(&form) {
        Way::One => one::submit(&dashboard, &visit, &queue, &form, turn).await,
        // Its values stay parsed as long as tasks are made of them.
        Way::Sweep => sweep::submit(&dashboard, &visit, &queue, &form).await,
        Way::Lines => lines::submit(&dashboard, &visit, &queue, form, turn).await,
    }
}

/// Waits for the memory of the form, if it is large.
pub(crate) async fn room(dashboard: &Dashboard, headers: &HeaderMap) -> Result<Option<Held>, Problem> {
    let length = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()).and_then(|text| text.parse().ok());
    // A body whose length nobody says may be long.
    match length.unwrap_or(FORM_BYTES).min(FORM_BYTES) {
        length if length < LARGE_FORM_BYTES => Ok(None),
        length => dashboard.reserve(length * COPIES).await.map(Some),
    }
}

/// Held by a large form while its JSON is parsed.
pub(crate) type Turn<'d> = Option<MutexGuard<'d, ()>>;

/// Waits for the turn of a form that takes more than a page has when its JSON is parsed.
pub(crate) async fn turn<'d>(dashboard: &'d Dashboard, form: &Query) -> Result<Turn<'d>, Problem> {
    let bytes: usize = form.iter().map(|(_, text)| text.len()).sum();
    if bytes > SMALL_FORM_BYTES { dashboard.large_form().await.map(Some) } else { Ok(None) }
}

/// What a form wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// To know what is wrong; from a script that shows only that, so that nothing that was typed has to be sent back.
    Watch,
    Check,
    Create,
    /// Of many, create those that can be.
    CreateValid,
}

impl Step {
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
enum Command {
    /// The form is empty, so it is an example.
    Example(String),
    Same(String),
    /// Something is wrong in the form.
    Wrong,
    /// No shell takes it, or no flags can say it.
    Unsayable,
}

impl Command {
    fn of(command: Option<String>) -> Self {
        command.filter(|command| command.len() <= COMMAND_BYTES).map_or(Self::Unsayable, Self::Same)
    }

    /// What can be copied.
    fn text(&self) -> Option<&str> {
        match self {
            Self::Example(text) | Self::Same(text) => Some(text),
            Self::Wrong | Self::Unsayable => None,
        }
    }

    /// What is said instead, or of it.
    const fn note(&self) -> &'static str {
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
fn cut(text: &str) -> String {
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
