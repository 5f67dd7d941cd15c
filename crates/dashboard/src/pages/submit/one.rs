//! One task by a form. The form carries the id of its task, so that it creates one task however often it is sent.

use askama::Template;
use taskqueue_core::limits::RETRY_DELAY_FACTOR_DEFAULT;
use taskqueue_core::scheduling::OnDependencyFailure;
use taskqueue_core::shell::CommandLine;
use taskqueue_core::{Definition, QueueName, Refusal, TaskId, Timestamp};
use taskqueue_store::command::{CreateTask, NewTask};
use taskqueue_store::{StoreError, StoreExt};

use super::create::random_id;
use super::{COMMAND_BYTES, Command, FormStep, Frame, Way, address, cut};
use crate::address::Query;
use crate::field::Field;
use crate::layout::{self, PageResult, Shell};
use crate::problem::Problem;
use crate::selected::find_task;
use crate::state::Dashboard;
use crate::task_fields::TaskFields;
use crate::visit::{FormTurn, Visit};
use crate::{answer, json_field, show};

/// What is said when there is nothing to fill a form from.
const SOURCE_GONE: &str = "The task that this form was to be filled from is not there any more.";

#[derive(Template)]
#[template(path = "submit_one.html")]
struct OnePage {
    shell: Shell,
    frame: Frame,
    content: Content,
    /// The task that was created before, with its name.
    created: Option<(TaskId, String)>,
    command: Command,
}

/// What the form holds.
struct Content {
    /// What the task of this form will have.
    id: TaskId,
    fields: TaskFields,
    /// What is to be said about the form as a whole.
    warning: Option<String>,
    /// The task that the form is filled from.
    source: Option<TaskId>,
    /// Whether only what is wrong with it is wanted.
    is_watched: bool,
}

impl Content {
    fn new(id: TaskId, fields: TaskFields) -> Self {
        Self { id, fields, warning: None, source: None, is_watched: false }
    }
}

/// The form: empty, or filled from a task.
pub(super) async fn form(visit: &Visit, queue: &QueueName) -> PageResult {
    let mut content = Content::new(random_id()?, TaskFields::default());
    if let Some(text) = visit.query.filled("from") {
        match known(&visit.dashboard, queue, text).await? {
            Some((id, definition)) => {
                content.fields = TaskFields::from_definition(&definition);
                content.fields.args = Field::with(json_field::write(&definition.args));
                content.source = Some(id);
            }
            None => content.warning = Some(SOURCE_GONE.to_owned()),
        }
    }
    show_form(visit, queue, content).await
}

/// The definition of a task, if it is there.
async fn known(dashboard: &Dashboard, queue: &QueueName, id: &str) -> Result<Option<(TaskId, Definition)>, Problem> {
    let Some(id) = TaskId::parse(id) else { return Ok(None) };
    let task = find_task(dashboard.store(), queue, id).await?;
    Ok(task.map(|task| (id, task.definition)))
}

/// Creates the task of a form, or shows the form again with what is wrong.
pub(super) async fn submit(visit: &Visit, queue: &QueueName, form: &Query, turn: FormTurn<'_>) -> PageResult {
    let id = form.get("id").and_then(TaskId::parse).map_or_else(random_id, Ok)?;
    let mut content = Content::new(id, TaskFields::of(form));
    let definition = content.fields.whole_definition();
    drop(turn);
    let not_before = content.fields.waiting.not_before(show::now());
    if let (Some(definition), Some(not_before), FormStep::Create) = (definition, not_before, FormStep::of(form)) {
        let create = CreateTask { queue: queue.clone(), id, new: Box::new(NewTask::new(definition, not_before)) };
        match visit.dashboard.store().write(create).await {
            Ok(_) => {
                let next = Query::default().and("way", "one").and("created", id);
                return Ok(answer::see_other(&next.at(&address(queue))));
            }
            Err(StoreError::Refused(Refusal::TaskDataTooLarge)) => {
                content.fields.args.error = Some(json_field::too_large());
            }
            Err(StoreError::Refused(Refusal::TaskIdConflict { .. })) => {
                content.id = random_id()?;
                content.warning = Some(format!(
                    "This form has created the task {id} before, with other values. Nothing was created now. Press the button once more to create another task."
                ));
            }
            Err(error) => return Err(error.into()),
        }
    }
    content.is_watched = FormStep::of(form) == FormStep::Watch;
    show_form(visit, queue, content).await
}

async fn show_form(visit: &Visit, queue: &QueueName, mut content: Content) -> PageResult {
    let created = match visit.query.filled("created") {
        Some(text) => known(&visit.dashboard, queue, text).await?,
        None => None,
    };
    let created = created.map(|(id, definition)| (id, cut(definition.name.as_deref().unwrap_or_default())));
    let fields = &mut content.fields;
    let (is_empty, url) = (fields.is_empty(), visit.server_url());
    let not_before = fields.waiting.not_before(show::now());
    // Large args are not parsed for a command that would be too long.
    let is_short = fields.args.value.len().max(fields.metadata.value.len()) <= 4 * COMMAND_BYTES;
    let command = match (is_empty, is_short) {
        (true, _) => Command::example(example(queue, &url)),
        (false, false) => Command::UNSAYABLE,
        (false, true) => match fields.whole_definition().zip(not_before) {
            Some((task, not_before)) => Command::of(command(queue, &url, &task, not_before)),
            None => Command::WRONG,
        },
    };
    if content.is_watched {
        fields.args.value.clear();
        fields.metadata.value.clear();
    }
    let (shell, frame) = Frame::new(visit, queue, Way::One).await?;
    layout::page(visit, &OnePage { shell, frame, content, created, command })
}

/// A command to begin with.
fn example(queue: &QueueName, url: &str) -> String {
    let command = show::command_line("task submit", queue.as_str(), url).flag("--name", "warm-up");
    command.flag("--arg", "lr=0.1").flag("--arg", "model=resnet50").to_string()
}

/// The command that creates such a task, if there is one.
fn command(queue: &QueueName, url: &str, task: &Definition, not_before: Option<Timestamp>) -> Option<String> {
    let command = show::command_line("task submit", queue.as_str(), url)
        .optional("--args", Some(task.args.as_str()).filter(|_| !task.args.is_empty_object()))
        .optional("--name", task.name.as_deref());
    Some(with_other_flags(command, task, not_before)?.to_string())
}

/// The flags for what all tasks have beside name and args; none if no flags can say it.
pub(super) fn with_other_flags(
    command: CommandLine,
    task: &Definition,
    not_before: Option<Timestamp>,
) -> Option<CommandLine> {
    let default = Definition::default();
    let metadata = Some(task.metadata.as_str()).filter(|_| task.metadata != default.metadata);
    let routes = Some(&task.routes).filter(|routes| **routes != default.routes);
    let number = |value: i64, default: i64| Some(value.to_string()).filter(|_| value != default);
    let command = command
        .optional("--metadata", metadata)
        .each("--route", routes.into_iter().flat_map(|routes| routes.iter()))
        .optional("--priority", number(task.priority, default.priority))
        .optional("--max-attempts", number(task.max_attempts, default.max_attempts))
        .optional("--not-before", not_before.map(|at| at.to_string()));
    let scheduling = &task.scheduling;
    let delay = scheduling.retry_delay.map(|delay| {
        let (first, longest) = (delay.seconds(), delay.max_seconds());
        // The flag has whole seconds, doubles the delay, and wants the longer one last.
        let can_be_said = delay.factor() == RETRY_DELAY_FACTOR_DEFAULT
            && first <= longest
            && [first, longest].iter().all(|seconds| seconds.fract() == 0.0 && *seconds <= 1e12);
        can_be_said.then(|| format!("{first}s..{longest}s"))
    });
    if delay == Some(None) {
        return None;
    }
    let choice = Some(scheduling.on_dependency_failure).filter(|choice| *choice != OnDependencyFailure::Wait);
    let command = command
        .optional("--retry-delay", delay.flatten())
        .optional("--timeout", scheduling.run_limit().map(|limit| format!("{}s", limit.as_secs())))
        .each("--after", scheduling.dependencies.as_slice().iter().map(TaskId::as_str))
        .optional("--on-dependency-failure", choice.map(OnDependencyFailure::as_str));
    Some(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    const URL: &str = "http://h:1";

    #[test]
    fn the_command_says_what_is_not_the_default() {
        let queue = QueueName::parse("exp").expect("a name");
        let command = |task: &Definition, at| command(&queue, URL, task, at).expect("a command");
        assert_eq!(command(&Definition::default(), None), "taskqueue task submit --queue exp --url http://h:1");
        let mut fields = TaskFields::of(&Query::parse(
            "name=it%27s&args=%7B%22lr%22:0.1%7D&routes=a,b&priority=-1&max_attempts=9&metadata=%7B%22m%22:1%7D",
        ));
        let task = fields.whole_definition().expect("fields");
        let expected = r#"taskqueue task submit --queue exp --url http://h:1 --args '{"lr":0.1}' --name 'it'\''s' --metadata '{"m":1}' --route a --route b --priority=-1 --max-attempts 9"#;
        assert_eq!(command(&task, None), expected);
    }

    #[test]
    fn the_command_says_what_a_task_waits_for_or_there_is_none() {
        let queue = QueueName::parse("exp").expect("a name");
        let said = |form: &str, at| {
            command(&queue, URL, &TaskFields::of(&Query::parse(form)).definition().expect("fields"), at)
                .map(|text| text.replace("taskqueue task submit --queue exp --url http://h:1", ""))
        };
        let form = "retry_seconds=10&retry_max_seconds=1+h&timeout=2+min&dependencies=t_exampletask0&on_dependency_failure=cancel";
        let expected = " --not-before 1970-01-01T00:00:00.000000Z --retry-delay 10s..3600s --timeout 120s --after t_exampletask0 --on-dependency-failure cancel";
        assert_eq!(said(form, Some(Timestamp::from_micros(0))).as_deref(), Some(expected));
        assert_eq!(said("retry_seconds=10", None).as_deref(), Some(" --retry-delay 10s..86400s"));
        for form in ["retry_seconds=10&retry_factor=3", "retry_seconds=0.5", "retry_seconds=2+days"] {
            assert_eq!(said(form, None), None, "{form}");
        }
    }
}
