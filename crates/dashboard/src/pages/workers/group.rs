//! The workers of one host, in rows.

use std::collections::{BTreeMap, HashMap};

use taskqueue_core::ids::TaskId;
use taskqueue_core::json::{Found, lookup};
use taskqueue_core::observation::{Observation, WorkerStatus};
use taskqueue_core::time::Timestamp;
use taskqueue_core::words::telemetry::{Gpu, Measure, Telemetry};

use super::BusyWith;
use crate::show::{self, Moment};

/// Texts that workers choose are cut to so many characters.
const TEXT_CHARS: usize = 100;

/// The workers of one host.
pub(crate) struct Group {
    /// Nothing for workers that do not say where they are.
    pub(crate) host: Option<String>,
    pub(crate) busy: usize,
    pub(crate) idle: usize,
    /// What the latest measurement says of the host.
    pub(crate) load: Option<Measure>,
    pub(crate) memory: Option<Measure>,
    pub(crate) gpus: Vec<Gpu>,
    pub(crate) rows: Vec<Row>,
}

pub(crate) struct Row {
    pub(crate) id: String,
    /// Where on the host it is.
    pub(crate) slot: Option<String>,
    pub(crate) route: String,
    pub(crate) is_busy: bool,
    pub(crate) task: Option<RowTask>,
    pub(crate) last_seen: Moment,
    pub(crate) cpu: Option<Measure>,
    pub(crate) memory: Option<Measure>,
    pub(crate) other: Option<String>,
}

pub(crate) struct RowTask {
    pub(crate) id: String,
    pub(crate) name: Option<String>,
    pub(crate) since: Option<Moment>,
}

/// Workers by host; in each by route, slot and id, so that a worker stays where it is.
pub(crate) fn groups(workers: Vec<Observation>, tasks: &HashMap<TaskId, BusyWith>, now: Timestamp) -> Vec<Group> {
    let mut hosts: BTreeMap<(bool, Option<String>), Vec<Observation>> = BTreeMap::new();
    for worker in workers {
        let host = text_of(&worker, "host");
        // Those without a host come last.
        hosts.entry((host.is_none(), host)).or_default().push(worker);
    }
    hosts.into_iter().map(|((_, host), workers)| group(host, workers, tasks, now)).collect()
}

fn group(
    host: Option<String>,
    mut workers: Vec<Observation>,
    tasks: &HashMap<TaskId, BusyWith>,
    now: Timestamp,
) -> Group {
    workers.sort_by_cached_key(|worker| (worker.report.route.clone(), slot_of(worker), worker.id.to_string()));
    let is_busy = |worker: &&Observation| worker.report.status == WorkerStatus::Busy;
    let busy = workers.iter().filter(is_busy).count();
    // All workers of a host measure the same host.
    let latest = workers.iter().filter_map(|worker| worker.telemetry.as_ref()).max_by_key(|known| known.updated_at);
    let of_host =
        latest.filter(|_| host.is_some()).map(|known| Telemetry::of(known.value.as_str())).unwrap_or_default();
    Group {
        busy,
        idle: workers.len() - busy,
        load: of_host.load,
        memory: of_host.host_memory,
        gpus: of_host.gpus,
        rows: workers.iter().map(|worker| row(worker, tasks, now)).collect(),
        host,
    }
}

fn row(worker: &Observation, tasks: &HashMap<TaskId, BusyWith>, now: Timestamp) -> Row {
    let task = |id: TaskId| {
        let known = tasks.get(&id);
        RowTask {
            id: id.to_string(),
            name: known.and_then(|task| task.name.as_deref().map(cut)),
            since: known.and_then(|task| task.since).map(|since| Moment::new(since, now)),
        }
    };
    let measured = worker.telemetry.as_ref().map(|known| Telemetry::of(known.value.as_str())).unwrap_or_default();
    let is_busy = worker.report.status == WorkerStatus::Busy;
    Row {
        id: worker.id.to_string(),
        slot: slot_of(worker).map(|slot| format!("slot {slot}")),
        route: worker.report.route.as_str().to_owned(),
        task: worker.report.task_id.filter(|_| is_busy).map(task),
        last_seen: Moment::new(worker.last_seen_at, now),
        cpu: measured.cpu,
        memory: measured.memory,
        other: measured.other.as_deref().map(cut),
        is_busy,
    }
}

fn slot_of(worker: &Observation) -> Option<i64> {
    if let Some(Found::Int(slot)) = lookup(worker.report.metadata.as_str(), &["slot"]) { Some(slot) } else { None }
}

/// A text that the worker says of itself; nothing if it is empty or something else.
fn text_of(worker: &Observation, name: &str) -> Option<String> {
    let Some(Found::Str(text)) = lookup(worker.report.metadata.as_str(), &[name]) else { return None };
    Some(cut(&text.to_text())).filter(|text| !text.trim().is_empty())
}

/// Short enough for a table, and on one line.
fn cut(text: &str) -> String {
    show::cut(&text.replace(char::is_control, " "), TEXT_CHARS).into_owned()
}

#[cfg(test)]
mod tests {
    use taskqueue_core::ids::{QueueName, Route, WorkerId};
    use taskqueue_core::json::JsonObject;
    use taskqueue_core::observation::{self, Report};

    use super::*;

    fn worker(number: u8, route: &str, metadata: &str) -> Observation {
        let report = Report {
            route: Route::parse(route).expect("a route"),
            status: if number == 1 { WorkerStatus::Busy } else { WorkerStatus::Idle },
            task_id: TaskId::parse("t_abcdefghijkl"),
            metadata: JsonObject::from_canonical(metadata),
        };
        let id = WorkerId::parse(&format!("w_abcdefghijk{number}")).expect("an id");
        let queue = QueueName::parse("q").expect("a name");
        observation::observe(None, &queue, id, report, Timestamp::from_micros(0)).expect("accepted")
    }

    #[test]
    fn workers_are_grouped_by_host_and_in_each_by_route_and_slot() {
        let workers = vec![
            worker(0, "b", r#"{"host":"n2"}"#),
            worker(1, "a", r#"{"host":"n2","slot":10}"#),
            worker(2, "a", r#"{"host":"n2","slot":9}"#),
            worker(3, "a", "{}"),
            worker(4, "a", r#"{"host":"n1"}"#),
            worker(5, "a", r#"{"host":7}"#),
        ];
        let found = groups(workers, &HashMap::new(), Timestamp::from_micros(0));
        let hosts: Vec<(Option<&str>, usize, usize)> =
            found.iter().map(|group| (group.host.as_deref(), group.busy, group.idle)).collect();
        assert_eq!(hosts, [(Some("n1"), 0, 1), (Some("n2"), 1, 2), (None, 0, 2)]);
        let ids: Vec<&str> = found[1].rows.iter().map(|row| row.id.as_str()).collect();
        assert_eq!(ids, ["w_abcdefghijk2", "w_abcdefghijk1", "w_abcdefghijk0"]);
        assert!(found[1].rows[0].task.is_none(), "an idle one works on nothing");
        assert!(found[1].rows[1].task.as_ref().is_some_and(|task| task.name.is_none() && task.since.is_none()));
    }

    #[test]
    fn what_workers_say_is_short_and_on_one_line() {
        assert_eq!(cut("a\u{1b}[31m\nb"), "a [31m b");
        let long = cut(&"x".repeat(10_000));
        assert_eq!(long.chars().count(), TEXT_CHARS);
        assert!(long.ends_with('…'));
    }
}
