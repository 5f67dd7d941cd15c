//! The form that edits a task. A task that runs cannot be edited, and one that somebody else has changed since the form was opened is
//! not overwritten unseen.

use askama::Template;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use taskqueue_core::access::Scope;
use taskqueue_core::ids::QueueName;
use taskqueue_core::refusal::Refusal;
use taskqueue_core::task::{Status, Task};
use taskqueue_core::update::Update;
use taskqueue_store::command::UpdateTask;
use taskqueue_store::{StoreError, StoreExt};

use super::edit_fields::{Fields, written};
use super::{address, title};
use crate::form;
use crate::layout::{self, PageResult, Section, Shell};
use crate::pages::submit::{room, turn};
use crate::problem::Problem;
use crate::state::Dashboard;
use crate::visit::Visit;

/// The largest task, with every byte of it written as three.
const FORM_BYTES: usize = 4 * 1024 * 1024;

#[derive(Template)]
#[template(path = "task_edit.html")]
struct EditPage {
    shell: Shell,
    base: String,
    title: String,
    id: String,
    status: &'static str,
    fields: Fields,
    /// The task that the form was made for.
    updated_at: i64,
    is_running: bool,
    /// What is wrong with all of it.
    problem: Option<String>,
    /// How many attempts are used.
    used: String,
}

/// The form.
pub(crate) async fn form(State(dashboard): State<Dashboard>, visit: Visit) -> PageResult {
    let queue = visit.queue()?;
    visit.check(Scope::Submit, &queue)?;
    let task = super::read(&dashboard, &visit).await?;
    let page = page(&dashboard, &visit, &queue, &task, Fields::of(&task), None).await?;
    layout::page(&visit, &page)
}

/// Saves what changed.
pub(crate) async fn save(State(dashboard): State<Dashboard>, visit: Visit, request: Request<Body>) -> PageResult {
    let queue = visit.queue()?;
    visit.check(Scope::Submit, &queue)?;
    let _room = room(&dashboard, &visit.headers).await?;
    let form = form::read(&visit, request.into_body(), FORM_BYTES).await?;
    let turn = turn(&dashboard, &form).await?;
    let task = super::read(&dashboard, &visit).await?;
    let mut fields = Fields::typed(&form, &task);
    let is_current =
        form.get("updated_at").and_then(|text| text.parse().ok()) == Some(task.lifecycle.updated_at.as_micros());
    let update = fields.update(&task);
    drop(turn);
    if !is_current {
        let problem = conflict(update.as_ref());
        return again(&dashboard, &visit, &queue, &task, fields, Some(problem), StatusCode::CONFLICT).await;
    }
    let Some(update) = update else {
        return again(&dashboard, &visit, &queue, &task, fields, None, StatusCode::UNPROCESSABLE_ENTITY).await;
    };
    let names = written(&update);
    let notice = match names.as_slice() {
        [] => "Nothing was changed: the task has these values already.".to_owned(),
        names => format!("Saved: {}.", names.join(", ")),
    };
    let place = address(&queue, task.id);
    if names.is_empty() {
        return Ok(layout::done(&visit, &place, &notice));
    }
    let command = UpdateTask { queue: queue.clone(), id: task.id, update: Box::new(update) };
    match dashboard.store().write(command).await {
        Ok(_) => Ok(layout::done(&visit, &place, &notice)),
        Err(StoreError::Refused(refusal)) => {
            let problem = refused(refusal, &mut fields)?;
            again(&dashboard, &visit, &queue, &task, fields, problem, StatusCode::CONFLICT).await
        }
        Err(error) => Err(error.into()),
    }
}

/// What to say of a task that has changed since the form was opened.
fn conflict(update: Option<&Update>) -> String {
    let differing = update.map(written).unwrap_or_default().join(", ");
    let differing = if differing.is_empty() {
        String::new()
    } else {
        format!(" What is typed here differs from the task in: {differing}.")
    };
    format!(
        "The task has changed since this form was opened, so nothing was saved.{differing} Look at the task in another tab; \
         saving again overwrites it with what is typed here."
    )
}

/// What to say of a refusal, at the field that it is about. Refusals about no field are pages of their own.
fn refused(refusal: Refusal, fields: &mut Fields) -> Result<Option<String>, Problem> {
    match refusal {
        Refusal::UpdateConflict { attempt, .. } => {
            fields.max_attempts.error = Some(format!(
                "{attempt} are used already, and a pending task needs one more: use at least {}.",
                attempt + 1
            ));
            Ok(None)
        }
        Refusal::TaskDataTooLarge => {
            Ok(Some("The task is too large: args, metadata, result and progress may have 1 MiB together. Put large data into a file and its path into args.".to_owned()))
        }
        Refusal::TaskRunning { .. } => {
            Ok(Some("The task has been claimed meanwhile and runs. Nothing was saved. Cancel it, or wait for its end, and save again.".to_owned()))
        }
        other => Err(other.into()),
    }
}

/// The form once more, with everything that was typed.
async fn again(
    dashboard: &Dashboard,
    visit: &Visit,
    queue: &QueueName,
    task: &Task,
    fields: Fields,
    problem: Option<String>,
    status: StatusCode,
) -> PageResult {
    let page = page(dashboard, visit, queue, task, fields, problem).await?;
    let mut response = layout::page(visit, &page)?;
    *response.status_mut() = status;
    Ok(response)
}

async fn page(
    dashboard: &Dashboard,
    visit: &Visit,
    queue: &QueueName,
    task: &Task,
    fields: Fields,
    problem: Option<String>,
) -> Result<EditPage, Problem> {
    let title = title(task);
    Ok(EditPage {
        shell: Shell::new(dashboard, visit, format!("Edit {title}"), Section::Tasks, Some(queue)).await?,
        base: address(queue, task.id),
        id: task.id.to_string(),
        status: task.lifecycle.status.as_str(),
        updated_at: task.lifecycle.updated_at.as_micros(),
        is_running: task.lifecycle.status == Status::Running,
        used: match task.lifecycle.attempt {
            0 => String::new(),
            used => format!("{used} of them used already."),
        },
        title,
        fields,
        problem,
    })
}
