//! The settings of a queue: whether and how much of it is claimed, and how long ended tasks are kept
//! (docs/decisions/0064). Reading them from a request body is the business of the `api` crate.

use std::collections::BTreeMap;

use crate::ids::Route;
use crate::json::{self, ObjectWriter, Value};
use crate::limits::ROUTE_LIMITS_MAX;
use crate::refusal::Refusal;
use crate::status::{Status, Statuses};
use crate::task::Lifecycle;
use crate::time::Timestamp;

/// A queue without settings has the default: nothing limits its claims, and nothing is deleted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueSettings {
    /// True if new claims find nothing.
    pub paused: bool,
    /// How many tasks of the queue may be running.
    pub max_running: Option<u64>,
    /// How many tasks that were claimed for a route may be running.
    pub route_limits: BTreeMap<Route, u64>,
    pub retention: Retention,
}

/// For how many seconds tasks are kept after their end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retention<T = Option<u64>> {
    pub succeeded_seconds: T,
    pub failed_seconds: T,
    pub cancelled_seconds: T,
}

/// New values, and values that go.
pub type RetentionPatch = Retention<Option<Option<u64>>>;

/// A change of the settings of a queue; what it does not name stays (RFC 7396).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SettingsPatch {
    pub paused: Option<bool>,
    pub max_running: Option<Option<u64>>,
    pub route_limits: RouteLimitsPatch,
    pub retention: RetentionPatch,
}

/// A change of the limits of routes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RouteLimitsPatch {
    /// No route has a limit any more.
    Clear,
    /// New limits, and routes that have none any more. Others stay.
    Merge(BTreeMap<Route, Option<u64>>),
}

impl Default for RouteLimitsPatch {
    fn default() -> Self {
        Self::Merge(BTreeMap::new())
    }
}

impl SettingsPatch {
    /// Refused if more than [`ROUTE_LIMITS_MAX`] routes would have a limit.
    pub fn apply(&self, before: &QueueSettings) -> Result<QueueSettings, Refusal> {
        let mut settings = before.clone();
        settings.paused = self.paused.unwrap_or(settings.paused);
        settings.max_running = self.max_running.unwrap_or(settings.max_running);
        match &self.route_limits {
            RouteLimitsPatch::Clear => settings.route_limits.clear(),
            RouteLimitsPatch::Merge(limits) => limits.iter().for_each(|(route, limit)| match limit {
                Some(limit) => drop(settings.route_limits.insert(route.clone(), *limit)),
                None => drop(settings.route_limits.remove(route)),
            }),
        }
        let (kept, patch) = (&mut settings.retention, self.retention);
        kept.succeeded_seconds = patch.succeeded_seconds.unwrap_or(kept.succeeded_seconds);
        kept.failed_seconds = patch.failed_seconds.unwrap_or(kept.failed_seconds);
        kept.cancelled_seconds = patch.cancelled_seconds.unwrap_or(kept.cancelled_seconds);
        if settings.route_limits.len() > ROUTE_LIMITS_MAX { Err(Refusal::TooManyRouteLimits) } else { Ok(settings) }
    }
}

/// How many tasks of a queue are running.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunningTasks {
    pub of_queue: u64,
    /// Those that were claimed for the route in question.
    pub of_route: u64,
}

impl QueueSettings {
    /// Returns whether claims depend on what is running.
    pub fn limits_claims(&self) -> bool {
        self.max_running.is_some() || !self.route_limits.is_empty()
    }

    /// How many more tasks may be claimed for a route; nothing if there is no limit.
    pub fn room(&self, route: &Route, running: RunningTasks) -> Option<u64> {
        if self.paused {
            return Some(0);
        }
        let of_queue = self.max_running.map(|most| most.saturating_sub(running.of_queue));
        let of_route = self.route_limits.get(route).map(|most| most.saturating_sub(running.of_route));
        of_queue.into_iter().chain(of_route).min()
    }

    /// Returns whether as many tasks are running as may be claimed for a route, whatever the rest of its queue does.
    pub fn is_full(&self, route: &Route, running: RunningTasks) -> bool {
        self.route_limits.get(route).is_some_and(|most| running.of_route >= *most)
    }

    /// Returns whether a change of settings may let claims find something that they did not find before.
    pub fn may_open(&self, after: &Self) -> bool {
        let is_wider = |before: Option<u64>, after: Option<u64>| match (before, after) {
            (Some(before), Some(after)) => after > before,
            (Some(_), None) => true,
            (None, _) => false,
        };
        let wider_route =
            |(route, before): (&Route, &u64)| is_wider(Some(*before), after.route_limits.get(route).copied());
        (self.paused && !after.paused)
            || is_wider(self.max_running, after.max_running)
            || self.route_limits.iter().any(wider_route)
    }

    /// As the API shows them. This is also how they are stored.
    pub fn to_json(&self) -> String {
        let (limits, retention) = (self.route_limits.iter(), self.retention.fields().into_iter());
        ObjectWriter::new()
            .boolean("paused", self.paused)
            .integer_or_null("max_running", self.max_running)
            .object("route_limits", |object| {
                limits.fold(object, |object, (route, limit)| object.integer(route.as_str(), *limit))
            })
            .object("retention", |object| {
                retention.fold(object, |object, (name, seconds)| object.integer_or_null(name, seconds))
            })
            .into_text()
    }

    /// Reads what [`QueueSettings::to_json`] gave.
    pub fn from_json(text: &str) -> Option<Self> {
        Self::from_value(&json::parse(text.as_bytes()).ok()?)
    }

    /// Reads what [`QueueSettings::to_json`] gave, from JSON that is parsed already. A newer server may have more members.
    pub fn from_value(value: &Value<'_>) -> Option<Self> {
        let (Value::Bool(paused), Value::Object(limits)) = (value.get("paused")?, value.get("route_limits")?) else {
            return None;
        };
        let limit =
            |(route, limit): &(_, Value<'_>)| Some((Route::parse(AsRef::<str>::as_ref(route))?, number(limit)??));
        let retention = value.get("retention")?;
        Some(Self {
            paused: *paused,
            max_running: number(value.get("max_running")?)?,
            route_limits: limits.iter().map(limit).collect::<Option<_>>()?,
            retention: Retention::read(|name| number(retention.get(name)?))?,
        })
    }
}

/// A number or null; nothing for anything else.
fn number(value: &Value<'_>) -> Option<Option<u64>> {
    match value {
        Value::Null => Some(None),
        Value::Int(integer) => u64::try_from(*integer).ok().map(Some),
        _ => None,
    }
}

impl<T> Retention<T> {
    /// The names of the fields.
    pub const FIELDS: [&'static str; 3] = ["succeeded_seconds", "failed_seconds", "cancelled_seconds"];

    /// The retention whose fields `read` reads by their names.
    pub fn read(read: impl FnMut(&'static str) -> Option<T>) -> Option<Self> {
        let [succeeded, failed, cancelled] = Self::FIELDS.map(read);
        Some(Self { succeeded_seconds: succeeded?, failed_seconds: failed?, cancelled_seconds: cancelled? })
    }

    /// Each field with its name.
    pub fn fields(self) -> [(&'static str, T); 3] {
        let [succeeded, failed, cancelled] = Self::FIELDS;
        [(succeeded, self.succeeded_seconds), (failed, self.failed_seconds), (cancelled, self.cancelled_seconds)]
    }
}

impl Retention {
    /// The states in which a task has ended.
    pub const STATUSES: [Status; 3] = [Status::Succeeded, Status::Failed, Status::Cancelled];

    pub fn seconds(&self, status: Status) -> Option<u64> {
        match status {
            Status::Succeeded => self.succeeded_seconds,
            Status::Failed => self.failed_seconds,
            Status::Cancelled => self.cancelled_seconds,
            Status::Pending | Status::Running => None,
        }
    }

    /// Returns the states whose tasks are kept for a limited time.
    pub fn limited(&self) -> Statuses {
        Self::STATUSES.into_iter().filter(|status| self.seconds(*status).is_some()).collect()
    }

    /// Returns whether a task is kept no longer.
    pub fn is_outdated(&self, lifecycle: &Lifecycle, now: Timestamp) -> bool {
        let until = self.deleted_until(lifecycle.status, now);
        until.zip(lifecycle.ended_at()).is_some_and(|(until, ended_at)| ended_at <= until)
    }

    /// Tasks of this status that ended at this time or before are deleted; nothing if they are kept.
    pub fn deleted_until(&self, status: Status, now: Timestamp) -> Option<Timestamp> {
        let seconds = i64::try_from(self.seconds(status)?).unwrap_or(i64::MAX);
        Some(now.plus_seconds(seconds.saturating_neg()))
    }

    /// Returns the statuses whose tasks are kept for a shorter time than `before`, and for how long.
    pub fn shorter_than(&self, before: &Self) -> impl Iterator<Item = (Status, u64)> {
        Self::STATUSES.into_iter().filter_map(|status| {
            let seconds = self.seconds(status)?;
            before.seconds(status).is_none_or(|before| seconds < before).then_some((status, seconds))
        })
    }

    /// Returns a filter for the tasks of this status that are kept no longer, by when they ended; nothing if there can be none.
    pub fn outdated_filter(&self, status: Status, now: Timestamp) -> Option<String> {
        // What lies before the first year has no text, and nothing has ended then.
        let until = self.deleted_until(status, now).filter(|until| *until > Timestamp::from_micros(0))?;
        Some(format!("(finished_at <= \"{until}\" or finished_at == null and updated_at <= \"{until}\")"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::route;

    fn limited(max_running: Option<u64>, gpu: Option<u64>) -> QueueSettings {
        let route_limits = gpu.map(|limit| (route("gpu"), limit)).into_iter().collect();
        QueueSettings { max_running, route_limits, ..QueueSettings::default() }
    }

    #[test]
    fn a_claim_has_room_as_far_as_pause_and_both_limits_leave_some() {
        let cases = [
            (limited(None, None), "gpu", 100, 100, None),
            (limited(Some(3), None), "gpu", 2, 2, Some(1)),
            (limited(Some(3), None), "gpu", 3, 0, Some(0)),
            (limited(Some(3), None), "gpu", 5, 0, Some(0)),
            (limited(Some(0), None), "cpu", 0, 0, Some(0)),
            (limited(None, Some(2)), "gpu", 9, 1, Some(1)),
            (limited(None, Some(2)), "cpu", 9, 9, None),
            (limited(Some(10), Some(2)), "gpu", 9, 0, Some(1)),
            (limited(Some(10), Some(2)), "gpu", 3, 2, Some(0)),
            (QueueSettings { paused: true, ..QueueSettings::default() }, "cpu", 0, 0, Some(0)),
        ];
        for (settings, name, of_queue, of_route, room) in cases {
            let running = RunningTasks { of_queue, of_route };
            assert_eq!(settings.room(&route(name), running), room, "{settings:?} {name} {running:?}");
        }
    }

    #[test]
    fn only_what_widens_a_limit_or_resumes_may_let_claims_find_something() {
        let paused = QueueSettings { paused: true, ..QueueSettings::default() };
        let cases = [
            (limited(None, None), limited(None, None), false),
            (paused.clone(), QueueSettings::default(), true),
            (QueueSettings::default(), paused, false),
            (limited(Some(1), None), limited(Some(2), None), true),
            (limited(Some(2), None), limited(Some(1), None), false),
            (limited(Some(1), None), limited(None, None), true),
            (limited(None, Some(1)), limited(None, None), true),
            (limited(None, Some(1)), limited(None, Some(2)), true),
            (limited(None, None), limited(Some(5), Some(5)), false),
        ];
        for (before, after, expected) in cases {
            assert_eq!(before.may_open(&after), expected, "{before:?} {after:?}");
        }
    }

    #[test]
    fn a_patch_changes_what_it_names_and_no_more() {
        let before = QueueSettings { paused: true, ..limited(Some(4), Some(8)) };
        let patch = |route_limits| SettingsPatch { route_limits, ..SettingsPatch::default() };
        let limits = |limits: &[(&str, Option<u64>)]| {
            patch(RouteLimitsPatch::Merge(limits.iter().map(|(name, limit)| (route(name), *limit)).collect()))
        };
        let names = |settings: QueueSettings| {
            settings.route_limits.into_keys().map(|route| route.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(SettingsPatch::default().apply(&before).unwrap(), before);
        let resumed = SettingsPatch { paused: Some(false), max_running: Some(None), ..SettingsPatch::default() };
        assert_eq!(resumed.apply(&before).unwrap(), limited(None, Some(8)));
        assert_eq!(names(limits(&[("cpu", Some(1))]).apply(&before).unwrap()), ["cpu", "gpu"]);
        assert_eq!(names(limits(&[("gpu", None), ("cpu", Some(1))]).apply(&before).unwrap()), ["cpu"]);
        assert_eq!(names(patch(RouteLimitsPatch::Clear).apply(&before).unwrap()), [""; 0]);
        let retention = RetentionPatch { failed_seconds: Some(Some(60)), ..RetentionPatch::default() };
        let kept = SettingsPatch { retention, ..SettingsPatch::default() };
        assert_eq!(kept.apply(&before).unwrap().retention.seconds(Status::Failed), Some(60));
    }

    #[test]
    fn settings_read_back_from_what_is_stored() {
        let text = r#"{"paused":false,"max_running":null,"route_limits":{},"retention":{"succeeded_seconds":null,"failed_seconds":null,"cancelled_seconds":null}}"#;
        assert_eq!(QueueSettings::default().to_json(), text);
        assert_eq!(QueueSettings::from_json(text), Some(QueueSettings::default()));
        let used = QueueSettings {
            paused: true,
            retention: Retention { cancelled_seconds: Some(0), ..Retention::default() },
            ..limited(Some(4), Some(8))
        };
        assert_eq!(QueueSettings::from_json(&used.to_json()), Some(used));
        for text in ["", "{}", "[]"] {
            assert_eq!(QueueSettings::from_json(text), None);
        }
    }

    #[test]
    fn ended_tasks_are_deleted_when_they_are_as_old_as_the_retention_says() {
        let now = Timestamp::from_micros(0).plus_seconds(1_000);
        let retention =
            Retention { succeeded_seconds: Some(60), failed_seconds: Some(u64::MAX), cancelled_seconds: None };
        assert_eq!(retention.deleted_until(Status::Succeeded, now), Some(now.plus_seconds(-60)));
        assert!(retention.deleted_until(Status::Failed, now).unwrap() < Timestamp::from_micros(0));
        assert_eq!(retention.deleted_until(Status::Cancelled, now), None);
        assert_eq!(retention.deleted_until(Status::Pending, now), None);
        assert_eq!(retention.limited().words(), ["succeeded", "failed"]);
    }
}
