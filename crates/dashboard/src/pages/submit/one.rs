//! One task by a form. The form carries the id of its task, so that it creates one task however often it is sent.

use askama::Template;
use taskqueue_core::definition::Definition;
use taskqueue_core::ids::{QueueName, TaskId};
use taskqueue_core::json::JsonObject;
use taskqueue_core::refusal::Refusal;
use taskqueue_store::command::CreateTask;
use taskqueue_store::{StoreError, StoreExt};

use super::create::random_id;
use super::fields::Fields;
use super::{Frame, Step, Way, address, cut, too_large};
use crate::address::Query;
use crate::field::Field;
use crate::json_field;
use crate::layout::{self, PageResult, Shell};
use crate::problem::Problem;
use crate::show::command::CommandLine;
use crate::state::Dashboard;
use crate::visit::Visit;

/// Longer commands are not shown: shells do not take them.
pub(super) const COMMAND_BYTES: usize = 16 * 1024;

#[derive(Template)]
#[template(path = "submit_one.html")]
struct OnePage {
    shell: Shell,
    frame: Frame,
    /// What the task of this form will have.
    id: TaskId,
    args: Field,
    fields: Fields,
    /// What is to be said about the form as a whole.
    warning: Option<String>,
    /// The task that was created before.
    created: Option<Created>,
    /// The task that the form is filled from.
    source: Option<TaskId>,
    command: Option<String>,
    example: String,
}

struct Created {
    id: TaskId,
    name: String,
    address: String,
    again: String,
}

/// What the form holds.
struct Content {
    id: TaskId,
    args: Field,
    fields: Fields,
    warning: Option<String>,
    source: Option<TaskId>,
    /// Whether only what is wrong with it is wanted.
    is_watched: bool,
}

impl Content {
    fn new(id: TaskId, args: Field, fields: Fields) -> Self {
        Self { id, args, fields, warning: None, source: None, is_watched: false }
    }
}

/// The form: empty, or filled from a task.
pub(super) async fn form(dashboard: &Dashboard, visit: &Visit, queue: &QueueName) -> PageResult {
    let mut content = Content::new(random_id()?, Field::default(), Fields::default());
    if let Some(text) = visit.query.filled("from") {
        match known(dashboard, queue, text).await? {
            Some((id, definition)) => {
                content.args = Field::with(json_field::write(&definition.args));
                content.fields = Fields::from_definition(&definition);
                content.source = Some(id);
            }
            None => {
                content.warning =
                    Some("The task that this form was to be filled from is not there any more.".to_owned())
            }
        }
    }
    show(dashboard, visit, queue, content).await
}

/// The definition of a task, if it is there.
async fn known(dashboard: &Dashboard, queue: &QueueName, id: &str) -> Result<Option<(TaskId, Definition)>, Problem> {
    let Some(id) = TaskId::parse(id) else { return Ok(None) };
    match dashboard.store().get_task(queue, id).await {
        Ok(task) => Ok(Some((id, task.definition))),
        Err(StoreError::Refused(Refusal::TaskNotFound { .. })) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Creates the task of a form, or shows the form again with what is wrong.
pub(super) async fn submit(dashboard: &Dashboard, visit: &Visit, queue: &QueueName, form: &Query) -> PageResult {
    let id = form.get("id").and_then(TaskId::parse).map_or_else(random_id, Ok)?;
    let mut content = Content::new(id, Field::of(form, "args"), Fields::of(form));
    let definition = definition(&mut content);
    if let (Some(definition), Step::Create) = (definition, Step::of(form)) {
        let create = CreateTask { queue: queue.clone(), id, new: Box::new(definition.into()) };
        match dashboard.store().write(create).await {
            Ok(_) => {
                let next = Query::default().and("way", Way::One.word()).and("created", id);
                return Ok(layout::see_other(&next.at(&address(queue))));
            }
            Err(StoreError::Refused(Refusal::TaskDataTooLarge)) => content.args.error = Some(too_large()),
            Err(StoreError::Refused(Refusal::TaskIdConflict { .. })) => {
                content.id = random_id()?;
                content.warning = Some(format!(
                    "This form has created the task {id} before, with other values. Nothing was created now. Press the button once more to create another task."
                ));
            }
            Err(error) => return Err(error.into()),
        }
    }
    content.is_watched = Step::of(form) == Step::Watch;
    show(dashboard, visit, queue, content).await
}

/// The definition that the fields give; none if a field is wrong, which then says so.
fn definition(content: &mut Content) -> Option<Definition> {
    let args = json_field::read(&content.args.value);
    let args = content.args.keep(args);
    let name = content.fields.plain_name();
    let rest = content.fields.definition();
    Some(Definition { args: args?, name: name?, ..rest? })
}

async fn show(dashboard: &Dashboard, visit: &Visit, queue: &QueueName, mut content: Content) -> PageResult {
    let created = match visit.query.filled("created") {
        Some(text) => known(dashboard, queue, text).await?.map(|(id, definition)| created(queue, id, &definition)),
        None => None,
    };
    let has_text = content.args.filled().is_some() || content.fields.name.filled().is_some();
    let command = if has_text { definition(&mut content).map(|task| command(queue, &task)) } else { None };
    let example = CommandLine::new("task submit", queue.as_str()).flag("--name", "warm-up").flag("--arg", "lr=0.1");
    let Content { id, mut args, mut fields, warning, source, is_watched } = content;
    if is_watched {
        args.value.clear();
        fields.metadata.value.clear();
    }
    let (shell, frame) = Frame::new(dashboard, visit, queue, Way::One).await?;
    let command = command.filter(|command| command.len() <= COMMAND_BYTES);
    let example = example.flag("--arg", "model=resnet50").to_string();
    layout::page(visit, &OnePage { shell, frame, id, args, fields, warning, created, source, command, example })
}

fn created(queue: &QueueName, id: TaskId, definition: &Definition) -> Created {
    Created {
        id,
        name: cut(definition.name.as_deref().unwrap_or_default()),
        address: format!("/ui/queues/{queue}/tasks/{id}"),
        again: Query::default().and("way", Way::One.word()).and("from", id).at(&address(queue)),
    }
}

/// The command that creates such a task.
fn command(queue: &QueueName, task: &Definition) -> String {
    let mut command = CommandLine::new("task submit", queue.as_str());
    if task.args != JsonObject::empty() {
        command = command.flag("--args", task.args.as_str());
    }
    if let Some(name) = &task.name {
        command = command.flag("--name", name);
    }
    with_other_flags(command, task).to_string()
}

/// The flags for what all tasks have beside name and args.
pub(super) fn with_other_flags(mut command: CommandLine, task: &Definition) -> CommandLine {
    let default = Definition::default();
    if task.metadata != default.metadata {
        command = command.flag("--metadata", task.metadata.as_str());
    }
    if task.routes != default.routes {
        command = task.routes.iter().fold(command, |command, route| command.flag("--route", route));
    }
    if task.priority != default.priority {
        command = command.flag("--priority", &task.priority.to_string());
    }
    if task.max_attempts != default.max_attempts {
        command = command.flag("--max-attempts", &task.max_attempts.to_string());
    }
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_says_what_is_not_the_default() {
        let queue = QueueName::parse("exp").expect("a name");
        assert_eq!(command(&queue, &Definition::default()), "taskqueue task submit --queue exp");
        let mut fields =
            Fields::of(&Query::parse("name=it%27s&routes=a,b&priority=-1&max_attempts=9&metadata=%7B%22m%22:1%7D"));
        let name = fields.plain_name().expect("a name");
        let task = Definition {
            name,
            args: JsonObject::from_canonical(r#"{"lr":0.1}"#),
            ..fields.definition().expect("fields")
        };
        let expected = r#"taskqueue task submit --queue exp --args '{"lr":0.1}' --name 'it'\''s' --metadata '{"m":1}' --route a --route b --priority=-1 --max-attempts 9"#;
        assert_eq!(command(&queue, &task), expected);
    }
}
