//! What the card of a queue says.

use taskqueue_core::access::Scope;
use taskqueue_core::activity::Event;
use taskqueue_core::ids::Route;
use taskqueue_core::status::Status;
use taskqueue_core::time::{Timestamp, between};

use super::alert::failures;
use super::reading::{Lately, QueueReading};
use crate::attention;
use crate::outlook::{Load, Outlook, Pace};
use crate::pages::settings::running_of;
use crate::shared_figures::SharedQueue;
use crate::show::{self, Bar, Moment, Spark};
use crate::visit::Visit;

pub(crate) struct Card {
    pub(crate) name: String,
    /// The path of its tasks; other pages of it are beside.
    pub(crate) path: String,
    pub(crate) tasks: String,
    pub(crate) bar: Bar,
    pub(crate) states: Vec<StateCount>,
    /// Nothing for queues without a card of their own.
    pub(crate) lately: Option<LatelyShown>,
    pub(crate) workers: String,
    /// Whether a worker is missed, and none is there at all.
    pub(crate) has_no_worker: bool,
    pub(crate) oldest: Option<Moment>,
    pub(crate) may_submit: bool,
    pub(crate) may_delete: bool,
    /// Nothing for queues without a card of their own.
    pub(crate) settings: Option<SettingsShown>,
}

/// What the settings of a queue say of its claims.
pub(crate) struct SettingsShown {
    pub(crate) is_paused: bool,
    pub(crate) may_change: bool,
    /// Tasks that run and may run at once: `3/8 running`, `gpu at most 2`.
    pub(crate) limits: Vec<String>,
}

/// How many tasks have a state, with the address of these.
pub(crate) struct StateCount {
    pub(crate) word: &'static str,
    pub(crate) count: String,
    pub(crate) is_zero: bool,
    pub(crate) address: String,
}

/// What happened lately.
pub(crate) struct LatelyShown {
    pub(crate) spark: Spark,
    pub(crate) rate: String,
    pub(crate) failed: String,
    pub(crate) has_failed: bool,
    /// Where the tasks are whose runs failed.
    pub(crate) failures: String,
    pub(crate) outlook: String,
    pub(crate) stands_still: bool,
}

impl Card {
    pub(crate) fn of(queue: &QueueReading, now: Timestamp, visit: &Visit) -> Self {
        let (name, figures) = (queue.name.as_str(), &queue.shared.figures);
        let path = format!("/ui/queues/{name}");
        let state = |status: Status| StateCount {
            word: status.as_str(),
            count: show::number(figures.tasks(status)),
            is_zero: figures.tasks(status) == 0,
            address: format!("{path}/tasks?status={}", status.as_str()),
        };
        let all = Status::ALL.iter().map(|status| figures.tasks(*status)).sum();
        let [idle, busy] = figures.workers();
        let is_paused = figures.settings().paused;
        Self {
            name: name.to_owned(),
            tasks: show::count(all, "task"),
            bar: Bar::new(|status| figures.tasks(status)),
            states: Status::ALL.into_iter().map(state).collect(),
            lately: queue.lately.as_ref().map(|lately| lately_shown(queue, lately, is_paused, now)),
            workers: match (busy, idle) {
                // Something runs, so somebody is there.
                (0, 0) if figures.tasks(Status::Running) > 0 => "no worker reports".to_owned(),
                (0, 0) => "no worker".to_owned(),
                _ => format!("{} busy, {} idle", show::number(busy), show::number(idle)),
            },
            has_no_worker: idle + busy == 0 && !is_paused && attention::misses_worker(figures),
            oldest: figures.oldest_pending().map(|since| Moment::new(since, now)),
            may_submit: visit.may(Scope::Submit, &queue.name),
            may_delete: visit.may(Scope::Admin, &queue.name),
            settings: queue.shows_settings.then(|| SettingsShown {
                is_paused,
                may_change: visit.may(Scope::Admin, &queue.name),
                limits: limits(&queue.shared),
            }),
            path,
        }
    }
}

/// The limits of a queue with what runs; of many routes the first ones.
fn limits(SharedQueue { figures, more_limits }: &SharedQueue) -> Vec<String> {
    let settings = figures.settings();
    let of_queue = settings.max_running.map(|_| format!("{} running", running_of(figures, settings)));
    // How many run that were claimed for a route is in no figures: those count a task for each route that it lists.
    let of_route = |(route, most): (&Route, &u64)| format!("{route} at most {}", show::number(*most));
    let more = (*more_limits > 0).then(|| format!("{} more", show::number(*more_limits as u64)));
    of_queue.into_iter().chain(settings.route_limits.iter().map(of_route)).chain(more).collect()
}

fn lately_shown(queue: &QueueReading, lately: &Lately, is_paused: bool, now: Timestamp) -> LatelyShown {
    let figures = &queue.shared.figures;
    let recent = Pace { times: attention::ended(&lately.last_5_minutes), within: Lately::RECENT };
    let load = Load {
        pending: figures.tasks(Status::Pending),
        running: figures.tasks(Status::Running),
        is_served: attention::is_served(figures),
        is_paused,
        oldest_pending: figures.oldest_pending().map(|since| between(since, now)),
        created: lately.last_5_minutes.of(Event::Created),
        ended: recent,
        ended_in_hour: Pace { times: attention::ended(&lately.last_hour), within: lately.busy_for },
    };
    let outlook = Outlook::of(&load);
    let failed = lately.last_hour.of(Event::Failed) + lately.last_hour.of(Event::Expired);
    LatelyShown {
        spark: Spark::new(lately.minutes.clone()),
        rate: show::per_minute(recent.times, recent.within),
        failed: show::number(failed),
        has_failed: failed > 0,
        failures: failures(queue.name.as_str(), now),
        outlook: outlook.map(Outlook::text).unwrap_or_default(),
        stands_still: outlook == Some(Outlook::StandsStill),
    }
}
