//! The settings of a queue: pause, limits, retention; and the fields of their form: what is typed, what is wrong with it, and the change that
//! it makes. A retention that would delete tasks at once is asked about first.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use askama::Template;
use axum::body::Body;
use axum::http::StatusCode;
use sha2::{Digest, Sha256};
use taskqueue_core::limits::{NAME_CHARS, PAGE_BYTES, ROUTE_LIMITS_MAX};
use taskqueue_core::settings::{RetentionPatch, RouteLimitsPatch};
use taskqueue_core::{
    QueueFigures, QueueName, QueueSettings, Retention, Route, RouteSelection, Scope, SettingsPatch, Status, TaskFilter,
    TaskOrder, TaskQuery, TaskSelection, TaskView, Timestamp,
};
use taskqueue_store::command::ChangeSettings;
use taskqueue_store::{Store, StoreError, StoreExt};
use tokio::time::timeout;

use crate::address::{Query, own_address};
use crate::answer::hex_digits;
use crate::field::{self, Field, PairRow};
use crate::layout::{self, PageResult, Section, Shell};
use crate::problem::Problem;
use crate::shared_figures::running_of;
use crate::show;
use crate::visit::Visit;

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
    visit.dashboard.store().write(ChangeSettings { queue: queue.clone(), patch: patch.into() }).await
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
    let shell = Shell::new(visit, title, Section::Settings, Some(queue)).await?;
    layout::page(visit, &ConfirmPage { shell, queue, losses, hidden: form })
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

/// Empty rows for limits of more routes.
const EMPTY_ROWS: usize = 2;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct SettingsFields {
    max_running: Field,
    /// The limits of routes, with how many tasks run that were claimed for each: `3/8`.
    limits: Vec<PairRow>,
    /// For how long tasks are kept, by [`Retention::STATUSES`].
    kept: [Field; 3],
}

impl SettingsFields {
    /// The values of a queue.
    fn of(settings: &QueueSettings) -> Self {
        let seconds_text = |seconds: u64| field::seconds_text(seconds as f64);
        let limit = |(route, limit): (&Route, &u64)| PairRow::of((route.as_str(), &limit.to_string()));
        Self {
            max_running: Field::with(settings.max_running.map(|most| most.to_string()).unwrap_or_default()),
            limits: with_empty_rows(settings.route_limits.iter().map(limit)),
            kept: Retention::STATUSES
                .map(|status| Field::with(settings.retention.seconds(status).map(seconds_text).unwrap_or_default())),
        }
    }

    /// Returns what was typed. A field that was not sent is as the queue has it.
    fn typed(form: &Query, settings: &QueueSettings) -> Self {
        let mut fields = Self::of(settings);
        field::take_typed(form, fields.all());
        if form.has("route") {
            fields.limits = with_empty_rows(form.all("route").zip(form.all("limit")).map(PairRow::of));
        }
        fields
    }

    fn all(&mut self) -> impl Iterator<Item = (&'static str, &mut Field)> {
        let kept = Retention::STATUSES.map(|status| status.as_str()).into_iter().zip(&mut self.kept);
        [("max_running", &mut self.max_running)].into_iter().chain(kept)
    }

    /// Returns whether any limit of a route is set.
    fn has_limits(&self) -> bool {
        self.limits.iter().any(|row| !row.name.is_empty())
    }

    /// Says how many tasks run that were claimed for the routes with limits.
    fn count_running(&mut self, running: &HashMap<String, u64>) {
        for row in self.limits.iter_mut().filter(|row| !row.name.is_empty() && !row.value.is_empty()) {
            row.note = format!("{}/{}", show::number(running.get(&row.name).copied().unwrap_or(0)), row.value);
        }
    }

    /// The change to these values; none if a field is wrong, which then says so.
    fn patch(&mut self, settings: &QueueSettings) -> Option<SettingsPatch> {
        let shown = Self::of(settings);
        let retention = settings.retention;
        let max_running = self.max_running.read_filled(limit);
        // Routes that it does not name any more have no limit.
        let gone = settings.route_limits.keys().map(|route| (route.clone(), None));
        let route_limits = self.route_limits().map(|limits| gone.chain(limits).collect());
        let mut kept = |at: usize| {
            let before = retention.seconds(Retention::STATUSES[at]);
            kept_seconds(&mut self.kept[at], &shown.kept[at], before)
        };
        let (succeeded, failed, cancelled) = (kept(0), kept(1), kept(2));
        Some(SettingsPatch {
            paused: None,
            max_running: Some(max_running?),
            route_limits: RouteLimitsPatch::Merge(route_limits?),
            retention: RetentionPatch {
                succeeded_seconds: Some(succeeded?),
                failed_seconds: Some(failed?),
                cancelled_seconds: Some(cancelled?),
            },
        })
    }

    fn route_limits(&mut self) -> Option<BTreeMap<Route, Option<u64>>> {
        let mut limits: BTreeMap<Route, Option<u64>> = BTreeMap::new();
        let rule =
            || format!("Name the route: 1 to {NAME_CHARS} of A-Z a-z 0-9 . _ - that begin with a letter or digit.");
        for row in self.limits.iter_mut().filter(|row| !row.is_empty()) {
            let route = Route::parse(&row.name).ok_or_else(rule);
            let read = route.and_then(|route| Ok((route, limit(&row.value)?)));
            match read {
                Ok((route, _)) if limits.contains_key(&route) => {
                    row.error = Some("This route has a limit already; give one of them.".to_owned());
                }
                Ok(_) if limits.len() == ROUTE_LIMITS_MAX => {
                    row.error = Some(format!("At most {ROUTE_LIMITS_MAX} routes can have a limit."));
                }
                Ok((route, limit)) => drop(limits.insert(route, Some(limit))),
                Err(error) => row.error = Some(error),
            }
        }
        self.limits.iter().all(|row| row.error.is_none()).then_some(limits)
    }
}

fn with_empty_rows(rows: impl Iterator<Item = PairRow>) -> Vec<PairRow> {
    PairRow::with_empty_ones(rows, EMPTY_ROWS, 0..=usize::MAX)
}

fn limit(text: &str) -> Result<u64, String> {
    field::integer(text, 0).map(i64::unsigned_abs)
}

/// For how many seconds tasks are kept; nothing for ever. None if that is wrong, which then is said.
fn kept_seconds(field: &mut Field, shown: &Field, before: Option<u64>) -> Option<Option<u64>> {
    if field.value == shown.value {
        return Some(before);
    }
    field.read_filled(|text| field::whole_seconds(text, 0, u64::MAX))
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

#[cfg(test)]
mod fields_tests {
    use super::*;

    fn settings() -> QueueSettings {
        QueueSettings {
            paused: true,
            max_running: Some(8),
            route_limits: [(Route::parse("gpu").unwrap(), 2)].into(),
            retention: Retention { succeeded_seconds: Some(604_800), ..Retention::default() },
        }
    }

    fn after(form: &str) -> Result<QueueSettings, Vec<String>> {
        let mut fields = SettingsFields::typed(&Query::parse(form), &settings());
        match fields.patch(&settings()) {
            Some(patch) => Ok(patch.apply(&settings()).unwrap()),
            None => {
                let rows: Vec<String> = fields.limits.iter().filter_map(|row| row.error.clone()).collect();
                Err(fields.all().filter_map(|(_, field)| field.error.clone()).chain(rows).collect())
            }
        }
    }

    #[test]
    fn a_form_that_was_not_changed_changes_nothing() {
        assert_eq!(after(""), Ok(settings()));
        let shown = "max_running=8&route=gpu&limit=2&route=&limit=&succeeded=7+days&failed=&cancelled=";
        assert_eq!(after(shown), Ok(settings()), "and the pause stays");
        assert_eq!(SettingsFields::of(&settings()).limits.len(), 1 + EMPTY_ROWS);
    }

    #[test]
    fn what_is_typed_replaces_all_of_it_and_empty_is_no_limit() {
        let changed = after("max_running=&route=cpu&limit=0&route=&limit=&succeeded=&failed=36+h&cancelled=0").unwrap();
        assert_eq!((changed.max_running, changed.paused), (None, true));
        assert_eq!(changed.route_limits, [(Route::parse("cpu").unwrap(), 0)].into());
        let Retention { succeeded_seconds, failed_seconds, cancelled_seconds } = changed.retention;
        assert_eq!((succeeded_seconds, failed_seconds, cancelled_seconds), (None, Some(129_600), Some(0)));
    }

    #[test]
    fn each_wrong_field_says_what_is_wrong() {
        let cases = [
            ("max_running=-1", "at least 0"),
            ("max_running=many", "at least 0"),
            ("route=gpu&limit=", "at least 0"),
            ("route=&limit=3", "Name the route"),
            ("route=a%2Fb&limit=3", "Name the route"),
            ("route=a&limit=3&route=a&limit=4", "has a limit already"),
            ("failed=soon", "a number with its unit"),
            ("failed=0.5+s", "a whole number"),
        ];
        for (form, expected) in cases {
            let errors = after(form).unwrap_err();
            assert!(matches!(errors.as_slice(), [error] if error.contains(expected)), "{form}: {errors:?}");
        }
        let many: String = (0..=ROUTE_LIMITS_MAX).map(|n| format!("route=r{n}&limit=1&")).collect();
        assert!(after(&many).unwrap_err()[0].contains("At most 256 routes"));
    }
}
