//! The settings of a queue: pause, limits, retention. What is typed is read in `settings/fields.rs`. A retention that would delete tasks
//! at once is asked about first.

mod fields;

use std::collections::HashMap;
use std::time::Duration;

use askama::Template;
use axum::body::Body;
use axum::http::StatusCode;
use sha2::{Digest, Sha256};
use taskqueue_core::limits::PAGE_BYTES;
use taskqueue_core::{
    QueueFigures, QueueName, QueueSettings, Retention, RouteSelection, Scope, SettingsPatch, Status, TaskFilter,
    TaskOrder, TaskQuery, TaskSelection, TaskView, Timestamp,
};
use taskqueue_store::command::ChangeSettings;
use taskqueue_store::{Store, StoreError, StoreExt};
use tokio::time::timeout;

use self::fields::SettingsFields;
use crate::address::{Query, own_address};
use crate::answer::hex_digits;
use crate::layout::{self, PageResult, Section, Shell};
use crate::problem::Problem;
use crate::shared_figures::running_of;
use crate::visit::Visit;
use crate::{field, show};

/// Tells one state of the settings from another.
const DIGEST_BYTES: usize = 8;

#[derive(Template)]
#[template(path = "settings.html")]
struct SettingsPage<'p> {
    shell: Shell,
    queue: &'p QueueName,
    /// The settings that the form was made for.
    settings: &'p QueueSettings,
    figures: QueueFigures,
    may_change: bool,
    fields: SettingsFields,
    /// What is wrong with all of it.
    problem: Option<&'static str>,
}

#[derive(Template)]
#[template(path = "settings_confirm.html")]
struct ConfirmPage<'p> {
    shell: Shell,
    queue: &'p QueueName,
    losses: Vec<Loss>,
    /// The form that was sent.
    hidden: Query,
}

/// The page.
pub(crate) async fn settings(visit: Visit) -> PageResult {
    let (queue, settings) = settings_of(&visit, Scope::Read).await?;
    let fields = SettingsFields::of(&settings);
    show_form(&visit, &queue, &settings, fields, None, StatusCode::OK).await
}

/// Saves what was typed, or asks first if tasks would be deleted by it.
pub(crate) async fn save(visit: Visit, body: Body) -> PageResult {
    let form = visit.form(body).await?;
    let (queue, settings) = settings_of(&visit, Scope::Admin).await?;
    let mut fields = SettingsFields::typed(&form, &settings);
    let patch = fields.patch(&settings);
    if form.get("seen") != Some(settings_digest(&settings).as_str()) {
        let problem = "The settings have changed since this form was opened, so nothing was saved. Saving again overwrites them with \
                       what is typed here.";
        return show_form(&visit, &queue, &settings, fields, Some(problem), StatusCode::CONFLICT).await;
    }
    let Some(patch) = patch else {
        return show_form(&visit, &queue, &settings, fields, None, StatusCode::UNPROCESSABLE_ENTITY).await;
    };
    let after = patch.apply(&settings)?;
    let losses = read_losses(visit.dashboard.store(), &queue, &settings, &after).await;
    if !losses.is_empty() && form.get("agreed") != Some("yes") {
        return ask(&visit, &queue, losses, form).await;
    }
    let notice = match after == settings {
        true => "Nothing was changed: the queue has these settings already.",
        false => "The settings are saved.",
    };
    change(&visit, &queue, patch).await?;
    Ok(layout::done(&visit, &path(&queue), notice))
}

/// Pauses a queue, or lets it go on.
pub(crate) async fn pause(visit: Visit, body: Body) -> PageResult {
    let form = visit.form(body).await?;
    let (queue, _) = settings_of(&visit, Scope::Admin).await?;
    let paused = match form.get("paused") {
        Some("yes") => true,
        Some("no") => false,
        _ => return Err(Problem::invalid("It is not said whether to pause", "Use the buttons of the page.")),
    };
    change(&visit, &queue, SettingsPatch { paused: Some(paused), ..SettingsPatch::default() }).await?;
    let notice = if paused {
        format!("Queue {queue} is paused: nothing more is claimed, and what runs goes on.")
    } else {
        format!("Queue {queue} is not paused any more.")
    };
    Ok(layout::done(&visit, own_address(form.get("next")), &notice))
}

async fn change(visit: &Visit, queue: &QueueName, patch: SettingsPatch) -> Result<QueueSettings, StoreError> {
    visit.dashboard.store().write(ChangeSettings { queue: queue.clone(), patch }).await
}

fn path(queue: &QueueName) -> String {
    format!("/ui/queues/{queue}/settings")
}

/// The queue of a visit and its settings, if this server has any and the viewer may do there what needs `scope`.
async fn settings_of(visit: &Visit, scope: Scope) -> Result<(QueueName, QueueSettings), Problem> {
    let queue = visit.queue_for(scope)?;
    if !visit.dashboard.has("queue-settings") {
        return Err(Problem::not_found("page", "This server has no settings of queues."));
    }
    let settings = visit.dashboard.store().queue_settings(&queue).await?;
    Ok((queue, settings))
}

/// Returns a digest of the settings, but for the pause, which has its own button.
fn settings_digest(settings: &QueueSettings) -> String {
    let text = QueueSettings { paused: false, ..settings.clone() }.to_json();
    hex_digits(&Sha256::digest(text), DIGEST_BYTES)
}

async fn ask(visit: &Visit, queue: &QueueName, losses: Vec<Loss>, form: Query) -> PageResult {
    let title = format!("Save the settings of {queue}?");
    let page = ConfirmPage {
        shell: Shell::new(visit, title, Section::Settings, Some(queue)).await?,
        queue,
        losses,
        hidden: form,
    };
    layout::page(visit, &page)
}

/// The page with these fields, and with what is wrong.
async fn show_form(
    visit: &Visit,
    queue: &QueueName,
    settings: &QueueSettings,
    mut fields: SettingsFields,
    problem: Option<&'static str>,
    status: StatusCode,
) -> PageResult {
    let store = visit.dashboard.store();
    let figures = store.queue_stats(queue, &RouteSelection::NONE).await?.figures;
    if fields.has_limits()
        && let Some(running) = running_by_route(store, queue).await?
    {
        fields.count_running(&running);
    }
    let page = SettingsPage {
        shell: Shell::new(visit, format!("Settings of {queue}"), Section::Settings, Some(queue)).await?,
        may_change: visit.may(Scope::Admin, queue),
        queue,
        settings,
        figures,
        fields,
        problem,
    };
    layout::page_with(visit, status, &page)
}

/// How long counting may take. It looks at every task of the queue.
const COUNT_TIMEOUT: Duration = Duration::from_secs(5);

/// The tasks of a state that are kept for a shorter time.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Loss {
    status: &'static str,
    kept: String,
    /// How many are deleted at once; nothing if that is not known.
    count: Option<String>,
}

/// Returns what is deleted that was kept before. Nothing if no retention becomes shorter.
async fn read_losses(store: &dyn Store, queue: &QueueName, before: &QueueSettings, after: &QueueSettings) -> Vec<Loss> {
    let mut losses = Vec::new();
    let now = show::now();
    for (status, seconds) in after.retention.shorter_than(&before.retention) {
        let selection = older_tasks(status, &after.retention, now);
        let count = match selection {
            Some(selection) => timeout(COUNT_TIMEOUT, store.count_tasks(queue, selection)).await,
            None => Ok(Ok(0)),
        };
        let count = count.ok().and_then(Result::ok).map(|count| show::count(count, "task"));
        losses.push(Loss { status: status.as_str(), kept: field::seconds_text(seconds as f64), count });
    }
    losses
}

/// The tasks of a state that ended so long ago.
fn older_tasks(status: Status, retention: &Retention, now: Timestamp) -> Option<TaskSelection> {
    let filter = Some(TaskFilter::parse(&retention.outdated_filter(status, now)?).ok()?);
    Some(TaskSelection { status: Some(status), filter, include_archived: true, ..TaskSelection::default() })
}

/// Running tasks that are looked at. Of more it is not told how many were claimed for a route.
const RUNNING_LOOKED_AT: u16 = 1_000;

/// How many tasks run that were claimed for each route; none if too many run. A task may list several routes, and figures count it for
/// each of them; a limit counts it for the one that it was claimed for.
async fn running_by_route(store: &dyn Store, queue: &QueueName) -> Result<Option<HashMap<String, u64>>, StoreError> {
    let selection = TaskSelection { status: Some(Status::Running), ..TaskSelection::default() };
    let order = TaskOrder::default();
    let query = TaskQuery { selection, order, limit: RUNNING_LOOKED_AT, after: None, max_bytes: PAGE_BYTES };
    let route = |task: &TaskView<'_>| task.last_route.unwrap_or_default().to_owned();
    let page = store.list_rows(queue, query, move |task| (route(task), size_of::<String>())).await?;
    Ok(page.next.is_none().then(|| counted(page.items)))
}

fn counted(routes: Vec<String>) -> HashMap<String, u64> {
    let mut counts = HashMap::new();
    routes.into_iter().for_each(|route| *counts.entry(route).or_default() += 1);
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_kept_for_a_shorter_time_is_lost() {
        let kept = |succeeded, failed| Retention {
            succeeded_seconds: succeeded,
            failed_seconds: failed,
            cancelled_seconds: Some(7),
        };
        let cases = [
            (kept(None, None), kept(None, None), vec![]),
            (kept(None, None), kept(Some(60), None), vec![(Status::Succeeded, 60)]),
            (kept(Some(60), Some(5)), kept(Some(61), Some(4)), vec![(Status::Failed, 4)]),
            (kept(Some(60), Some(5)), kept(None, Some(5)), vec![]),
        ];
        for (before, after, expected) in cases {
            assert_eq!(after.shorter_than(&before).collect::<Vec<_>>(), expected, "{before:?} {after:?}");
        }
    }

    #[test]
    fn tasks_are_counted_by_their_end_archived_ones_too() {
        let retention = Retention { failed_seconds: Some(60), ..Retention::default() };
        let selection = older_tasks(Status::Failed, &retention, Timestamp::from_micros(0).plus_seconds(61)).unwrap();
        assert!(selection.include_archived && selection.status == Some(Status::Failed));
        let text = selection.filter.as_ref().map(|filter| filter.text().to_owned()).unwrap_or_default();
        assert!(text.starts_with("(finished_at <= \"1970-01-01T00:00:01.000000Z\""), "{text}");
        assert!(older_tasks(Status::Succeeded, &retention, Timestamp::from_micros(0)).is_none());
    }

    #[test]
    fn tasks_are_counted_for_the_route_that_they_were_claimed_for() {
        let running = counted(["gpu", "cpu", "gpu"].map(str::to_owned).to_vec());
        assert_eq!(running, HashMap::from([("gpu".to_owned(), 2), ("cpu".to_owned(), 1)]));
    }
}
