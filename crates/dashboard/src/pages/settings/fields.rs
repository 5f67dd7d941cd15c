//! The fields of the form for the settings of a queue: what is typed, what is wrong with it, and the change that it makes.

use std::collections::{BTreeMap, HashMap};

use taskqueue_core::limits::{NAME_CHARS, ROUTE_LIMITS_MAX};
use taskqueue_core::settings::{RetentionPatch, RouteLimitsPatch};
use taskqueue_core::{QueueSettings, Retention, Route, SettingsPatch};

use crate::address::Query;
use crate::field::{self, Field, PairRow};
use crate::show;

/// Empty rows for limits of more routes.
const EMPTY_ROWS: usize = 2;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SettingsFields {
    pub(super) max_running: Field,
    /// The limits of routes, with how many tasks run that were claimed for each: `3/8`.
    pub(super) limits: Vec<PairRow>,
    /// For how long tasks are kept, by [`Retention::STATUSES`].
    pub(super) kept: [Field; 3],
}

impl SettingsFields {
    /// The values of a queue.
    pub(super) fn of(settings: &QueueSettings) -> Self {
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
    pub(super) fn typed(form: &Query, settings: &QueueSettings) -> Self {
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
    pub(super) fn has_limits(&self) -> bool {
        self.limits.iter().any(|row| !row.name.is_empty())
    }

    /// Says how many tasks run that were claimed for the routes with limits.
    pub(super) fn count_running(&mut self, running: &HashMap<String, u64>) {
        for row in self.limits.iter_mut().filter(|row| !row.name.is_empty() && !row.value.is_empty()) {
            row.note = format!("{}/{}", show::number(running.get(&row.name).copied().unwrap_or(0)), row.value);
        }
    }

    /// The change to these values; none if a field is wrong, which then says so.
    pub(super) fn patch(&mut self, settings: &QueueSettings) -> Option<SettingsPatch> {
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
        for row in self.limits.iter_mut().filter(|row| !row.is_empty()) {
            let read = Route::parse(&row.name)
                .ok_or_else(|| {
                    format!("Name the route: 1 to {NAME_CHARS} of A-Z a-z 0-9 . _ - that begin with a letter or digit.")
                })
                .and_then(|route| Ok((route, limit(&row.value)?)));
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
