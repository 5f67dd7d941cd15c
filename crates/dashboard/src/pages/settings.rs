//! The settings of a queue: pause, limits, retention. What is typed is read in `settings/fields.rs`. A retention that would delete tasks
//! at once is asked about first (`settings/losses.rs`).

mod fields;
mod losses;
mod running;

use askama::Template;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use sha2::{Digest, Sha256};
use taskqueue_core::access::Scope;
use taskqueue_core::ids::QueueName;
use taskqueue_core::settings::{QueueSettings, SettingsPatch};
use taskqueue_core::stats::{QueueFigures, RouteSelection};
use taskqueue_core::status::Status;
use taskqueue_store::command::ChangeSettings;
use taskqueue_store::{StoreError, StoreExt};

use self::fields::Fields;
use self::losses::Loss;
use self::running::RunningByRoute;
use crate::address::Query;
use crate::form::{self, SMALL_FORM_BYTES};
use crate::layout::{self, PageResult, Section, Shell};
use crate::problem::Problem;
use crate::show;
use crate::state::Dashboard;
use crate::visit::Visit;

/// Tells one state of the settings from another.
const DIGITS: usize = 16;

#[derive(Template)]
#[template(path = "settings.html")]
struct SettingsPage {
    shell: Shell,
    queue: String,
    path: String,
    is_paused: bool,
    pending: String,
    /// How many run, and how many may.
    running: String,
    may_change: bool,
    fields: Fields,
    /// The settings that the form was made for.
    seen: String,
    /// What is wrong with all of it.
    problem: Option<String>,
}

#[derive(Template)]
#[template(path = "settings_confirm.html")]
struct ConfirmPage {
    shell: Shell,
    queue: String,
    path: String,
    losses: Vec<Loss>,
    /// The form that was sent.
    hidden: Vec<(String, String)>,
}

/// The page.
pub(crate) async fn settings(State(dashboard): State<Dashboard>, visit: Visit) -> PageResult {
    let (queue, settings) = known(&dashboard, &visit).await?;
    let fields = Fields::of(&settings);
    let page = page(&dashboard, &visit, &queue, &settings, fields, None).await?;
    layout::page(&visit, &page)
}

/// Saves what was typed, or asks first if tasks would be deleted by it.
pub(crate) async fn save(State(dashboard): State<Dashboard>, visit: Visit, request: Request<Body>) -> PageResult {
    let form = form::read(&visit, request.into_body(), SMALL_FORM_BYTES).await?;
    visit.check(Scope::Admin, &visit.queue()?)?;
    let (queue, settings) = known(&dashboard, &visit).await?;
    let mut fields = Fields::typed(&form, &settings);
    let patch = fields.patch(&settings);
    if form.get("seen") != Some(seen(&settings).as_str()) {
        let problem = "The settings have changed since this form was opened, so nothing was saved. Saving again overwrites them with \
                       what is typed here.";
        return again(&dashboard, &visit, &queue, &settings, fields, Some(problem), StatusCode::CONFLICT).await;
    }
    let Some(patch) = patch else {
        return again(&dashboard, &visit, &queue, &settings, fields, None, StatusCode::UNPROCESSABLE_ENTITY).await;
    };
    let after = patch.apply(&settings)?;
    let losses = losses::read(&dashboard, &queue, &settings, &after).await;
    if !losses.is_empty() && form.get("agreed") != Some("yes") {
        return ask(&dashboard, &visit, &queue, losses, &form).await;
    }
    let notice = match after == settings {
        true => "Nothing was changed: the queue has these settings already.",
        false => "The settings are saved.",
    };
    change(&dashboard, &queue, patch).await?;
    Ok(layout::done(&visit, &path(&queue), notice))
}

/// Pauses a queue, or lets it go on.
pub(crate) async fn pause(State(dashboard): State<Dashboard>, visit: Visit, request: Request<Body>) -> PageResult {
    let form = form::read(&visit, request.into_body(), SMALL_FORM_BYTES).await?;
    visit.check(Scope::Admin, &visit.queue()?)?;
    let (queue, _) = known(&dashboard, &visit).await?;
    let paused = match form.get("paused") {
        Some("yes") => true,
        Some("no") => false,
        _ => return Err(Problem::invalid("It is not said whether to pause", "Use the buttons of the page.")),
    };
    change(&dashboard, &queue, SettingsPatch { paused: Some(paused), ..SettingsPatch::default() }).await?;
    let notice = if paused {
        format!("Queue {queue} is paused: nothing more is claimed, and what runs goes on.")
    } else {
        format!("Queue {queue} is not paused any more.")
    };
    Ok(layout::done(&visit, layout::own_address(form.get("next")), &notice))
}

async fn change(dashboard: &Dashboard, queue: &QueueName, patch: SettingsPatch) -> Result<QueueSettings, StoreError> {
    dashboard.store().write(ChangeSettings { queue: queue.clone(), patch }).await
}

fn path(queue: &QueueName) -> String {
    format!("/ui/queues/{queue}/settings")
}

/// The queue of a visit and its settings, if this server has any.
async fn known(dashboard: &Dashboard, visit: &Visit) -> Result<(QueueName, QueueSettings), Problem> {
    let queue = visit.queue()?;
    if !dashboard.has("queue-settings") {
        return Err(Problem::not_found("page", "This server has no settings of queues."));
    }
    let settings = dashboard.store().queue_settings(&queue).await?;
    Ok((queue, settings))
}

/// What the settings are, but for the pause, which has its own button.
fn seen(settings: &QueueSettings) -> String {
    let text = QueueSettings { paused: false, ..settings.clone() }.to_json();
    let digest = Sha256::digest(text);
    digest.iter().map(|byte| format!("{byte:02x}")).collect::<String>().chars().take(DIGITS).collect()
}

/// How many tasks run, and how many may: `3`, `3/8`.
pub(crate) fn running_of(figures: &QueueFigures, settings: &QueueSettings) -> String {
    let running = show::number(figures.tasks(Status::Running));
    settings.max_running.map_or(running.clone(), |most| format!("{running}/{}", show::number(most)))
}

async fn ask(dashboard: &Dashboard, visit: &Visit, queue: &QueueName, losses: Vec<Loss>, form: &Query) -> PageResult {
    let title = format!("Save the settings of {queue}?");
    let page = ConfirmPage {
        shell: Shell::new(dashboard, visit, title, Section::Settings, Some(queue)).await?,
        queue: queue.to_string(),
        path: path(queue),
        losses,
        hidden: form.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
    };
    layout::page(visit, &page)
}

/// The form once more, with everything that was typed.
async fn again(
    dashboard: &Dashboard,
    visit: &Visit,
    queue: &QueueName,
    settings: &QueueSettings,
    fields: Fields,
    problem: Option<&str>,
    status: StatusCode,
) -> PageResult {
    let page = page(dashboard, visit, queue, settings, fields, problem.map(str::to_owned)).await?;
    let mut response = layout::page(visit, &page)?;
    *response.status_mut() = status;
    Ok(response)
}

async fn page(
    dashboard: &Dashboard,
    visit: &Visit,
    queue: &QueueName,
    settings: &QueueSettings,
    mut fields: Fields,
    problem: Option<String>,
) -> Result<SettingsPage, Problem> {
    let figures = dashboard.store().queue_stats(queue, &RouteSelection::NONE).await?.figures;
    if fields.has_limits()
        && let Some(running) = RunningByRoute::read(dashboard.store(), queue).await?
    {
        fields.count_running(&running);
    }
    Ok(SettingsPage {
        shell: Shell::new(dashboard, visit, format!("Settings of {queue}"), Section::Settings, Some(queue)).await?,
        queue: queue.to_string(),
        path: path(queue),
        is_paused: settings.paused,
        pending: show::count(figures.tasks(Status::Pending), "task"),
        running: running_of(&figures, settings),
        may_change: visit.may(Scope::Admin, queue),
        seen: seen(settings),
        fields,
        problem,
    })
}
