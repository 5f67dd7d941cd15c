//! What is going on in a queue: how many tasks and workers there are, now and by route, and what happened lately. Computed from
//! counts that the storage keeps anyway; no task is visited (docs/reference/http-api.md §14.12).

use std::collections::{BTreeMap, BTreeSet};

use crate::activity::{Activity, Counts, Span, Unit};
use crate::durations::{Durations, Percentiles};
use crate::ids::Route;
use crate::pending_parts::{CountedParts, PendingParts, PendingState};
use crate::settings::{QueueSettings, RunningTasks};
use crate::status::{Status, WorkerStatus};
use crate::task::Lifecycle;
use crate::time::Timestamp;

/// Since when a pending task has been waiting: since its creation, or, after a run, since its last change.
pub fn pending_since(lifecycle: &Lifecycle) -> Timestamp {
    waiting_since(lifecycle.created_at, lifecycle.updated_at, lifecycle.finished_run.is_some())
}

/// Returns the beginning of the waiting, for those who have not loaded the whole lifecycle.
pub fn waiting_since(created_at: Timestamp, updated_at: Timestamp, was_run: bool) -> Timestamp {
    if was_run { updated_at } else { created_at }
}

/// Tasks and workers of a queue at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueFigures {
    tasks: [u64; Status::ALL.len()],
    /// Those with a pending or running task or a current worker that are told one by one. A task counts for each of its routes.
    routes: BTreeMap<Box<str>, RouteFigures>,
    /// What is left out by [`QueueFigures::keep`] and [`QueueFigures::leave_out_calm`].
    pub left_out: LeftOutRoutes,
    pub settings: QueueSettings,
    pending: Option<PendingParts>,
}

/// Which routes of a queue are told one by one. There may be any number of them, so every reader says how many it takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RouteSelection {
    /// The first ones by name, and besides these those of a list.
    ByName { most: usize, besides: BTreeSet<Box<str>> },
    /// Those whose name contains a text: first those that starve, then others with pending tasks, and each part by name.
    StarvingFirst { most: usize, find: Box<str> },
}

impl RouteSelection {
    /// No route: only what all have together.
    pub const NONE: Self = Self::first(0);

    /// The first ones by name.
    pub const fn first(most: usize) -> Self {
        Self::ByName { most, besides: BTreeSet::new() }
    }

    /// How many are told one by one at most.
    pub fn most(&self) -> usize {
        match self {
            Self::ByName { most, besides } => most.saturating_add(besides.len()),
            Self::StarvingFirst { most, .. } => *most,
        }
    }

    /// Returns whether a route is one of those that are looked for.
    fn finds(&self, route: &str) -> bool {
        match self {
            Self::ByName { .. } => true,
            Self::StarvingFirst { find, .. } => route.contains(&**find),
        }
    }
}

/// The detail in which figures tell of pending tasks. A storage need not know what these wait for and may have to count, so only
/// those who show it ask for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PendingDetail {
    /// How many there are.
    Number,
    /// And how many of them wait for what.
    ByState,
}

/// The routes that are not told one by one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeftOutRoutes {
    pub routes: u64,
    /// How many of them were looked for.
    pub found: u64,
    pub starving: u64,
    /// Of all of them. The oldest pending task is that of those which were told once.
    pub sum: RouteFigures,
}

/// Tasks and workers of a route at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RouteFigures {
    pub pending: u64,
    pub running: u64,
    /// Since when the task waits that has been pending longest, of those that can be claimed.
    pub oldest_pending: Option<Timestamp>,
    /// True if that is missing because the storage was too busy to say it.
    pub oldest_is_unknown: bool,
    pub workers_idle: u64,
    pub workers_busy: u64,
}

impl RouteFigures {
    /// Returns whether tasks wait and no worker serves them. Workers that run something serve it even if they do not report.
    pub fn is_starving(&self) -> bool {
        self.pending > 0 && self.running == 0 && self.workers_idle == 0 && self.workers_busy == 0
    }

    /// Returns whether tasks wait without a worker and none of them could be claimed: they are delayed or blocked, and no worker
    /// is missed. Known only where the oldest pending task was looked for.
    pub fn misses_no_worker(&self) -> bool {
        self.is_starving() && self.oldest_pending.is_none() && !self.oldest_is_unknown
    }

    /// So many tasks have this status. Those that have ended count for no route.
    pub fn of_tasks(status: Status, tasks: u64) -> Self {
        match status {
            Status::Pending => Self { pending: tasks, ..Self::default() },
            Status::Running => Self { running: tasks, ..Self::default() },
            _ => Self::default(),
        }
    }

    /// There are so many current workers.
    pub fn of_workers(status: WorkerStatus, workers: u64) -> Self {
        match status {
            WorkerStatus::Idle => Self { workers_idle: workers, ..Self::default() },
            WorkerStatus::Busy => Self { workers_busy: workers, ..Self::default() },
        }
    }

    /// Adds what another route has.
    pub fn merge(&mut self, more: &Self) {
        self.pending += more.pending;
        self.running += more.running;
        self.workers_idle += more.workers_idle;
        self.workers_busy += more.workers_busy;
        self.oldest_pending = [self.oldest_pending, more.oldest_pending].into_iter().flatten().min();
        self.oldest_is_unknown |= more.oldest_is_unknown;
    }
}

impl QueueFigures {
    /// How many tasks have a status.
    pub fn tasks(&self, status: Status) -> u64 {
        self.tasks[status as usize]
    }

    /// The routes that are told one by one, sorted.
    pub fn routes(&self) -> impl ExactSizeIterator<Item = (&str, &RouteFigures)> {
        self.routes.iter().map(|(route, figures)| (&**route, figures))
    }

    /// How many routes there are.
    pub fn route_count(&self) -> u64 {
        self.routes.len() as u64 + self.left_out.routes
    }

    /// On how many routes tasks wait that no worker serves.
    pub fn starving_count(&self) -> u64 {
        self.routes.values().filter(|route| route.is_starving()).count() as u64 + self.left_out.starving
    }

    /// Idle and busy workers. A worker has one route.
    pub fn workers(&self) -> [u64; 2] {
        let all = self.routes.values().chain([&self.left_out.sum]);
        all.fold([0, 0], |[idle, busy], route| [idle + route.workers_idle, busy + route.workers_busy])
    }

    /// Since when the task waits that has been pending longest, of the routes that were told one by one.
    pub fn oldest_pending(&self) -> Option<Timestamp> {
        self.routes.values().chain([&self.left_out.sum]).filter_map(|figures| figures.oldest_pending).min()
    }

    /// How many pending tasks wait for what, in the order of [`PendingState::ALL`]. Nothing if nobody asked, or if it is
    /// not known.
    pub fn pending_by_state(&self) -> Option<[u64; PendingState::ALL.len()]> {
        self.pending.map(|parts| parts.by_state(self.settings.paused))
    }

    /// Since when the oldest task of a route waits for a claim and nothing else; nothing if the settings let no claim for it find
    /// anything, whatever is running.
    pub fn oldest_claimable(&self, route: &str) -> Option<Timestamp> {
        let is_open = |route: Route| self.settings.room(&route, RunningTasks::default()) != Some(0);
        let oldest = self.routes.get(route).and_then(|figures| figures.oldest_pending);
        oldest.filter(|_| Route::parse(route).is_none_or(is_open))
    }

    /// Tells only the selected routes one by one. May be repeated as more routes are added, if these come in the order of names.
    pub fn keep(&mut self, selection: &RouteSelection) {
        let all = std::mem::take(&mut self.routes);
        // Starving ones, other ones with pending tasks, and the rest; by name there is one part.
        let rank = |route: &RouteFigures| match selection {
            RouteSelection::StarvingFirst { .. } if route.is_starving() => 0,
            RouteSelection::StarvingFirst { .. } if route.pending > 0 => 1,
            RouteSelection::StarvingFirst { .. } | RouteSelection::ByName { .. } => 2,
        };
        let mut wanted = [0; 3];
        all.iter().filter(|(name, _)| selection.finds(name)).for_each(|(_, route)| wanted[rank(route)] += 1);
        let (RouteSelection::ByName { most, .. } | RouteSelection::StarvingFirst { most, .. }) = selection;
        let mut left = *most;
        let mut room = wanted.map(|routes: usize| {
            let taken = routes.min(left);
            left -= taken;
            taken
        });
        for (name, figures) in all {
            let is_named = matches!(selection, RouteSelection::ByName { besides, .. } if besides.contains(&name));
            let (room, found) = (&mut room[rank(&figures)], selection.finds(&name));
            if is_named {
                self.routes.insert(name, figures);
            } else if found && *room > 0 {
                *room -= 1;
                self.routes.insert(name, figures);
            } else {
                self.left_out.add(&figures, found);
            }
        }
    }

    /// Leaves out the routes that miss no worker, and counts them among the starving ones no more. For those who have looked for
    /// the oldest pending task of each route that is told.
    pub fn leave_out_calm(&mut self) {
        let left_out = &mut self.left_out;
        self.routes.retain(|_, route| {
            let is_calm = route.misses_no_worker();
            if is_calm {
                left_out.routes += 1;
                left_out.found += 1;
                left_out.sum.merge(route);
            }
            !is_calm
        });
    }

    /// Sets what the pending tasks wait for. All of them must have been added.
    pub fn set_pending(&mut self, counted: CountedParts) {
        self.pending = counted.of_pending(self.tasks(Status::Pending));
    }

    /// So many tasks have these routes and this status.
    pub fn add_tasks<'a>(&mut self, routes: impl IntoIterator<Item = &'a str>, status: Status, tasks: u64) {
        self.tasks[status as usize] += tasks;
        let figures = RouteFigures::of_tasks(status, tasks);
        if figures != RouteFigures::default() {
            routes.into_iter().for_each(|route| self.route(route).merge(&figures));
        }
    }

    /// There are so many current workers of a route.
    pub fn add_workers(&mut self, route: &str, status: WorkerStatus, workers: u64) {
        self.route(route).merge(&RouteFigures::of_workers(status, workers));
    }

    /// A task of a route is pending since then.
    pub fn add_pending_since(&mut self, route: &str, since: Timestamp) {
        let oldest = &mut self.route(route).oldest_pending;
        *oldest = Some(oldest.map_or(since, |oldest| oldest.min(since)));
    }

    /// It could not be found out since when tasks of a route are pending.
    pub fn oldest_is_unknown(&mut self, route: &str) {
        self.route(route).oldest_is_unknown = true;
    }

    /// Adds a route with all that is known of it.
    pub fn add_route(&mut self, route: impl Into<Box<str>>, figures: &RouteFigures) {
        self.routes.entry(route.into()).or_default().merge(figures);
    }

    fn route(&mut self, route: &str) -> &mut RouteFigures {
        self.routes.entry(route.into()).or_default()
    }
}

impl LeftOutRoutes {
    fn add(&mut self, route: &RouteFigures, is_found: bool) {
        self.routes += 1;
        self.found += u64::from(is_found);
        self.starving += u64::from(route.is_starving());
        self.sum.merge(route);
    }
}

/// The activity of the spans of one unit that are known, sorted by their start; spans in which nothing happened may be missing.
pub type KnownSpans = Vec<(Timestamp, Activity)>;

/// The figures of a queue and its latest activity.
#[derive(Clone, Debug, PartialEq)]
pub struct QueueStats {
    /// When.
    pub now: Timestamp,
    pub figures: QueueFigures,
    pub last_minute: Counts,
    pub last_5_minutes: Counts,
    pub last_hour: Counts,
    /// Creation to first claim, of the last hour.
    pub wait: Option<Percentiles>,
    /// Claim to end, of the last hour.
    pub run: Option<Percentiles>,
    /// From when on activity is known.
    pub since: Timestamp,
}

const HOUR_SECONDS: i64 = 3_600;

impl QueueStats {
    /// Between which moments the minutes begin that [`QueueStats::of`] needs. Clocks of other servers may be a little ahead; what
    /// was counted while a clock was far ahead did not happen in the last hour.
    pub fn needs(now: Timestamp) -> (Timestamp, Timestamp) {
        let minute = Unit::Minute.seconds();
        (now.plus_seconds(-HOUR_SECONDS - minute), now.plus_seconds(minute))
    }

    /// From the figures and the minutes of the last hour.
    pub fn of(now: Timestamp, figures: QueueFigures, minutes: &KnownSpans, since: Timestamp) -> Self {
        let (mut waits, mut runs) = (Durations::default(), Durations::default());
        for (_, minute) in minutes.iter().filter(|(start, _)| covered_micros(*start, now, HOUR_SECONDS) > 0) {
            waits.merge(&minute.waits);
            runs.merge(&minute.runs);
        }
        Self {
            now,
            figures,
            last_minute: counts_of_last(60, minutes, now),
            last_5_minutes: counts_of_last(300, minutes, now),
            last_hour: counts_of_last(HOUR_SECONDS, minutes, now),
            wait: waits.percentiles(),
            run: runs.percentiles(),
            since,
        }
    }
}

/// Returns what happened in the last seconds. Of the minute that these cover only in part, the same part counts.
fn counts_of_last(seconds: i64, minutes: &KnownSpans, now: Timestamp) -> Counts {
    let mut counts = Counts::default();
    for (start, minute) in minutes {
        counts.merge(&minute.counts.share(covered_micros(*start, now, seconds), MINUTE_MICROS));
    }
    counts
}

const MINUTE_MICROS: u64 = 60_000_000;

/// How much of the minute that begins at `start` is in the last seconds before `now`. Nothing has happened yet in what is left of
/// the current minute, so all of it counts; and so does what an event of another server says of a moment to come.
fn covered_micros(start: Timestamp, now: Timestamp, seconds: i64) -> u64 {
    let end = start.plus_seconds(Unit::Minute.seconds());
    let window_start = now.plus_seconds(-seconds).max(start);
    u64::try_from(end.as_micros() - window_start.as_micros()).unwrap_or(0)
}

/// The spans of a series: from which, inclusive, to which, exclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeriesSelection {
    pub unit: Unit,
    /// From the first that is kept, if absent.
    pub from: Option<Timestamp>,
    /// To the current one, which is included, if absent.
    pub to: Option<Timestamp>,
}

impl SeriesSelection {
    /// The moments between which spans begin: those of `from` and of the moment before `to` are included.
    pub fn range(self, now: Timestamp) -> (Timestamp, Timestamp) {
        let first_kept = self.unit.kept_from(now);
        let span_of = |moment| Span::of(self.unit, moment).start;
        let from = self.from.map_or(first_kept, |from| span_of(from).max(first_kept));
        let to = self.to.unwrap_or_else(|| span_of(now).plus_seconds(self.unit.seconds()));
        (from, to)
    }
}

/// Activity over time, for plots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActivitySeries {
    pub unit: Unit,
    /// Spans in which something happened, sorted by their start.
    pub spans: KnownSpans,
    /// From when on activity is known.
    pub since: Timestamp,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::activity::{Event, Record};
    use crate::samples::at;

    fn created(tasks: u64) -> Activity {
        let mut activity = Activity::default();
        activity.counts.add(Event::Created, tasks);
        activity
    }

    /// A queue with a task on `a` and on `b` that could be claimed, of five pending ones.
    fn waiting(settings: QueueSettings) -> QueueFigures {
        let mut figures = QueueFigures::default();
        figures.add_tasks(["a"], Status::Pending, 4);
        figures.add_tasks(["b"], Status::Pending, 1);
        figures.add_tasks(["c"], Status::Running, 9);
        figures.add_pending_since("a", at(5));
        figures.add_pending_since("b", at(7));
        figures.settings = settings;
        figures.set_pending(CountedParts { claimable: None, delayed: Some(2), blocked: Some(1) });
        figures
    }

    #[test]
    fn what_settings_keep_from_being_claimed_is_pending_and_not_claimable() {
        let limits = |limits: &[(&str, u64)]| {
            limits.iter().map(|(route, limit)| (Route::parse(route).unwrap(), *limit)).collect::<BTreeMap<_, _>>()
        };
        let open = QueueSettings::default();
        let limited = QueueSettings { max_running: Some(1), route_limits: limits(&[("a", 1)]), ..open.clone() };
        let closed = QueueSettings { max_running: Some(0), ..open.clone() };
        let closed_route = QueueSettings { route_limits: limits(&[("a", 0)]), ..open.clone() };
        let paused = QueueSettings { paused: true, ..open.clone() };
        let (all, none) = ([Some(at(5)), Some(at(7))], [None; 2]);
        let cases = [
            (open, [2, 2, 1, 0], all),
            (limited, [2, 2, 1, 0], all),
            (closed, [2, 2, 1, 0], none),
            (closed_route, [2, 2, 1, 0], [None, Some(at(7))]),
            (paused, [0, 2, 1, 2], none),
        ];
        for (settings, by_state, oldest) in cases {
            let figures = waiting(settings.clone());
            assert_eq!(figures.pending_by_state(), Some(by_state), "{settings:?}");
            assert_eq!(["a", "b"].map(|route| figures.oldest_claimable(route)), oldest, "{settings:?}");
            assert_eq!(figures.oldest_pending(), Some(at(5)), "it is pending all the same");
        }
        assert_eq!(QueueFigures::default().pending_by_state(), None, "nobody has counted");
    }

    /// Four routes; `b` and `d` starve.
    fn four_routes() -> QueueFigures {
        let mut figures = QueueFigures::default();
        figures.add_tasks(["a", "b", "c", "d"], Status::Pending, 1);
        figures.add_workers("a", WorkerStatus::Idle, 2);
        figures.add_workers("c", WorkerStatus::Busy, 1);
        figures.add_pending_since("d", at(3));
        figures
    }

    fn told(figures: &QueueFigures) -> String {
        figures.routes().map(|(route, _)| route).collect()
    }

    #[test]
    fn what_is_not_told_one_by_one_is_counted() {
        let starving = |most, find: &str| RouteSelection::StarvingFirst { most, find: find.into() };
        let by_name = |most, besides: &str| {
            let besides = besides.chars().map(|name| name.to_string().into()).collect();
            RouteSelection::ByName { most, besides }
        };
        let cases = [
            (RouteSelection::NONE, "", 4),
            (by_name(2, ""), "ab", 2),
            (by_name(1, "dx"), "ad", 2),
            (by_name(9, ""), "abcd", 0),
            (starving(0, ""), "", 4),
            (starving(1, ""), "b", 3),
            (starving(2, ""), "bd", 2),
            (starving(3, ""), "abd", 1),
            (starving(3, "c"), "c", 0),
        ];
        for (selection, expected, left_out) in cases {
            let mut figures = four_routes();
            figures.keep(&selection);
            assert_eq!((&*told(&figures), figures.left_out.found), (expected, left_out), "{selection:?}");
            assert_eq!((figures.route_count(), figures.starving_count()), (4, 2), "{selection:?}");
            assert_eq!((figures.workers(), figures.oldest_pending()), ([2, 1], Some(at(3))), "{selection:?}");
            assert_eq!(figures.tasks(Status::Pending), 1);
        }
    }

    #[test]
    fn routes_with_pending_tasks_come_before_those_with_workers_only() {
        let mut figures = QueueFigures::default();
        figures.add_workers("a", WorkerStatus::Idle, 1);
        figures.add_workers("z", WorkerStatus::Idle, 1);
        figures.add_tasks(["z"], Status::Pending, 1);
        figures.keep(&RouteSelection::StarvingFirst { most: 1, find: "".into() });
        assert_eq!(told(&figures), "z");
    }

    #[test]
    fn routes_that_come_in_parts_are_selected_as_if_they_came_at_once() {
        for most in 0..5 {
            for selection in [RouteSelection::StarvingFirst { most, find: "".into() }, RouteSelection::first(most)] {
                let mut at_once = four_routes();
                at_once.keep(&selection);
                let mut in_parts = QueueFigures::default();
                in_parts.add_tasks([], Status::Pending, 1);
                for (route, figures) in four_routes().routes() {
                    in_parts.add_route(route, figures);
                    in_parts.keep(&selection);
                }
                assert_eq!(in_parts, at_once, "{selection:?}");
            }
        }
    }

    #[test]
    fn a_route_starves_if_tasks_wait_and_nobody_serves_it() {
        let cases = [
            ("nothing waits", (0, 0, 0, 0), false),
            ("nobody is there", (1, 0, 0, 0), true),
            ("somebody is idle", (1, 0, 1, 0), false),
            ("all are busy", (1, 0, 0, 1), false),
            ("a worker that does not report runs something", (1, 1, 0, 0), false),
            ("idle without work", (0, 0, 1, 0), false),
        ];
        for (case, (pending, running, workers_idle, workers_busy), expected) in cases {
            let route = RouteFigures { pending, running, workers_idle, workers_busy, ..RouteFigures::default() };
            assert_eq!(route.is_starving(), expected, "{case}");
        }
    }

    #[test]
    fn a_route_whose_tasks_are_all_delayed_or_blocked_misses_no_worker() {
        let mut figures = four_routes();
        let calm: String =
            figures.routes().filter(|(_, route)| route.misses_no_worker()).map(|(name, _)| name).collect();
        assert_eq!(calm, "b", "on d a task can be claimed; a and c have workers");
        let mut busy = four_routes();
        busy.oldest_is_unknown("b");
        busy.leave_out_calm();
        assert_eq!(told(&busy), "abcd", "the storage was too busy to say whether one can be claimed");
        figures.leave_out_calm();
        assert_eq!((&*told(&figures), figures.left_out.found), ("acd", 1));
        assert_eq!((figures.route_count(), figures.starving_count(), figures.workers()), (4, 1, [2, 1]));
        assert_eq!((figures.left_out.sum.pending, figures.oldest_pending()), (1, Some(at(3))));
    }

    #[test]
    fn a_minute_counts_by_the_part_of_it_that_is_in_the_window() {
        let minutes = vec![(at(0), created(60)), (at(60), created(100)), (at(120), created(7))];
        let cases =
            [(120, 60, 107), (135, 60, 82), (179, 60, 9), (180, 60, 7), (181, 60, 7), (240, 60, 0), (150, 300, 167)];
        for (now, seconds, expected) in cases {
            let counts = counts_of_last(seconds, &minutes, at(now));
            assert_eq!(counts.of(Event::Created), expected, "{now} {seconds}");
        }
    }

    #[test]
    fn percentiles_are_those_of_the_last_hour() {
        let mut minute = Activity::default();
        minute.add(Record { event: Event::Claimed, micros: Some(1_500_000) });
        minute.add(Record { event: Event::Failed, micros: Some(40_000_000) });
        let stats = |now| QueueStats::of(at(now), QueueFigures::default(), &vec![(at(600), minute.clone())], at(1));
        let recent = stats(4_259);
        assert!((1.4..2.0).contains(&recent.wait.unwrap().p50) && (32.0..46.0).contains(&recent.run.unwrap().p99));
        assert_eq!((recent.last_minute.of(Event::Claimed), recent.last_hour.of(Event::Failed)), (0, 0));
        assert_eq!(stats(4_200).last_hour.of(Event::Failed), 1);
        let later = stats(4_260);
        assert_eq!((later.wait, later.run), (None, None));
    }

    #[test]
    fn a_series_is_cut_to_what_is_kept_and_to_whole_spans() {
        let now = at(1_000_000_000);
        let range = |unit, from, to| SeriesSelection { unit, from, to }.range(now);
        let kept = Unit::Minute.kept_from(now);
        assert_eq!(range(Unit::Minute, None, None), (kept, at(1_000_000_020)));
        assert_eq!(range(Unit::Minute, Some(at(0)), Some(at(5))), (kept, at(5)));
        assert_eq!(range(Unit::Minute, Some(at(999_999_999)), None).0, at(999_999_960));
        assert_eq!(range(Unit::Hour, Some(at(999_999_999)), None), (at(999_997_200), at(1_000_000_800)));
    }
}
