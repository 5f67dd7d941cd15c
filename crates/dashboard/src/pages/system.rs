//! The server: versions, its database, what it does, and what is wrong with it. All but the versions is for those who may see
//! everything.

use std::time::Duration;

use askama::Template;
use taskqueue_core::access::Scope;
use taskqueue_core::stats::{PendingDetail, QueueFigures, RouteSelection};
use taskqueue_core::status::Status;
use taskqueue_store::figures::{ProcessFigures, StoreFigures};
use taskqueue_store::histogram::HistogramValues;
use taskqueue_store::transaction::QueueKey;

use crate::host::HostFigures;
use crate::layout::{self, PageResult, Section, Shell};
use crate::problem::Problem;
use crate::shared_figures::QUEUES_AT_ONCE;
use crate::show::{self, Meter};
use crate::visit::Visit;

/// Queues that are listed; the overview finds the others.
const QUEUES: usize = 200;

#[derive(Template)]
#[template(path = "system.html")]
struct SystemPage {
    shell: Shell,
    version: &'static str,
    mode: &'static str,
    features: Vec<&'static str>,
    /// Nothing for those who may not see everything.
    inside: Option<Inside>,
}

/// What only those see who may see everything.
struct Inside {
    health: Health,
    database: Vec<Fact>,
    server: Vec<Fact>,
    writes: Vec<Fact>,
    queues: Vec<QueueRow>,
    queues_left_out: usize,
}

/// Whether the storage works, and what its settings risk.
struct Health {
    works: bool,
    risks: Vec<String>,
}

/// One line of a list of facts.
struct Fact {
    name: &'static str,
    value: String,
    /// How much of its limit it is.
    meter: Option<Meter>,
    /// What it means, for those who do not know.
    hint: &'static str,
}

struct QueueRow {
    name: String,
    tasks: String,
    routes: u64,
    may_delete: bool,
}

/// The page.
pub(crate) async fn system(visit: Visit) -> PageResult {
    let inside = if visit.viewer.sees_everything() { Some(inside(&visit).await?) } else { None };
    let page = SystemPage {
        version: visit.dashboard.host.figures().version,
        mode: visit.dashboard.mode.as_str(),
        features: visit.dashboard.host.features(),
        inside,
        shell: Shell::new(&visit, "System", Section::System, None).await?,
    };
    layout::page(&visit, &page)
}

async fn inside(visit: &Visit) -> Result<Inside, Problem> {
    let store = visit.dashboard.store();
    let checked = visit.dashboard.check_storage().await;
    let storage = store.figures(&[], &RouteSelection::NONE, PendingDetail::Number).await?;
    let (process, host) = (store.process_figures(), visit.dashboard.host.figures());
    let queues = all_queues(visit).await?;
    Ok(Inside {
        health: Health { works: checked.is_some(), risks: checked.unwrap_or_default() },
        database: database(store.parts().kind, &storage, &queues),
        server: server(&host),
        writes: writes(&process),
        queues_left_out: queues.count - queues.first.len(),
        queues: queues.first,
    })
}

/// All queues: the first ones by name, and what they have together.
#[derive(Default)]
struct AllQueues {
    first: Vec<QueueRow>,
    count: usize,
    tasks: u64,
}

async fn all_queues(visit: &Visit) -> Result<AllQueues, Problem> {
    let mut known = visit.dashboard.store().list_queue_keys().await?;
    known.sort_by(|(_, a), (_, b)| a.as_str().cmp(b.as_str()));
    let mut all = AllQueues::default();
    for part in known.chunks(QUEUES_AT_ONCE) {
        let keys: Vec<QueueKey> = part.iter().map(|(key, _)| *key).collect();
        let figures = visit.dashboard.figures.of(visit.dashboard.store(), &keys, visit.began).await?;
        let existing = part.iter().zip(figures).filter_map(|((_, name), shared)| Some((name, shared?)));
        for (name, shared) in existing {
            let figures = &shared.figures;
            all.count += 1;
            all.tasks += tasks(figures);
            if all.first.len() < QUEUES {
                all.first.push(QueueRow {
                    name: name.as_str().to_owned(),
                    tasks: show::number(tasks(figures)),
                    routes: figures.route_count(),
                    may_delete: visit.may(Scope::Admin, name),
                });
            }
        }
    }
    Ok(all)
}

fn tasks(figures: &QueueFigures) -> u64 {
    Status::ALL.into_iter().map(|status| figures.tasks(status)).sum()
}

fn fact(name: &'static str, value: impl Into<String>, hint: &'static str) -> Fact {
    Fact { name, value: value.into(), meter: None, hint }
}

/// So many of at most so many.
fn limited(name: &'static str, used: usize, most: usize, hint: &'static str) -> Fact {
    let value = format!("{} of {}", show::number(used as u64), show::number(most as u64));
    Fact { meter: Meter::of_limit(used as f64, most as f64), ..fact(name, value, hint) }
}

fn database(kind: &'static str, storage: &StoreFigures, queues: &AllQueues) -> Vec<Fact> {
    vec![
        fact("Kind", kind, ""),
        fact("Size", storage.database_bytes.map_or("not known".to_owned(), show::bytes), ""),
        fact("Queues", show::number(queues.count as u64), ""),
        fact("Tasks", show::number(queues.tasks), ""),
    ]
}

fn server(host: &HostFigures) -> Vec<Fact> {
    let [claims, heartbeats, outputs] = host.waiting.map(|waiting| show::number(waiting as u64));
    let (waiting, most) = (host.waiting.iter().sum(), host.waiting_limit);
    let mut facts = vec![
        fact("Up for", show::duration(host.uptime), ""),
        fact("Requests", show::number(host.requests), ""),
        fact("Failures", show::number(host.failures), "Answers with a status from 500 on"),
        fact("Connections", show::number(host.connections as u64), ""),
        limited("Waiting", waiting, most, "Requests that wait for something to happen"),
        fact("… claims", claims, ""),
        fact("… heartbeats", heartbeats, ""),
        fact("… followers", outputs, "Readers that wait for output of a task"),
    ];
    facts.extend(host.memory_bytes.map(|bytes| fact("Memory", show::bytes(bytes), "")));
    facts
}

fn writes(process: &ProcessFigures) -> Vec<Fact> {
    let writer = &process.writer;
    let mut facts = vec![
        limited("Queued writes", process.queued_writes, process.queue_capacity, "Commands that wait for the writer"),
        fact("Commits", with_mean(&writer.commit_seconds), ""),
        fact("Commands", commands(&writer.commands), "Commands that share one commit share its cost"),
    ];
    if writer.sync_seconds.count() > 0 {
        let hint = "Each commit syncs its log; these copy the log into the database file";
        facts.push(fact("Syncs besides", with_mean(&writer.sync_seconds), hint));
    }
    facts.extend([
        fact("Failed commits", show::number(writer.failures), "Commits that the storage refused, since the start"),
        limited("Readers in use", process.readers_in_use, process.readers, "Threads or connections for reads"),
        fact("Long reads", show::number(process.long_reads as u64), "Reads that may visit every task"),
    ]);
    facts
}

/// How often, and how long on average.
fn with_mean(seconds: &HistogramValues) -> String {
    let count = show::number(seconds.count());
    mean(seconds)
        .map_or(count.clone(), |mean| format!("{count}, {} on average", show::duration(Duration::from_secs_f64(mean))))
}

fn commands(values: &HistogramValues) -> String {
    let count = show::number(values.sum as u64);
    mean(values).map_or(count.clone(), |mean| format!("{count}, {mean:.1} in each commit"))
}

fn mean(values: &HistogramValues) -> Option<f64> {
    let mean = values.sum / values.count() as f64;
    (mean.is_finite() && mean >= 0.0).then_some(mean)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_average_is_said_when_something_was_counted() {
        let values = |sum, count| HistogramValues { buckets: vec![(1.0, count), (f64::INFINITY, 0)], sum };
        assert_eq!(with_mean(&values(0.02, 4)), "4, 5 ms on average");
        assert_eq!(with_mean(&values(0.0, 0)), "0");
        assert_eq!(commands(&values(9.0, 4)), "9, 2.2 in each commit");
        assert_eq!(commands(&HistogramValues::default()), "0");
    }

    #[test]
    fn what_has_a_limit_is_said_with_it() {
        let fact = limited("Queued writes", 6, 4_096, "");
        assert_eq!((fact.value.as_str(), fact.meter), ("6 of 4,096", Meter::of_limit(6.0, 4_096.0)));
    }
}
