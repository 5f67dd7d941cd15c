//! `taskqueue-bench cost`: what one request costs the server in CPU, split into parts. Whole processes and threads are
//! measured, not estimated: bare HTTP is the reference's CPU; the rest of the async threads is our HTTP server; the threads of
//! the storage are divided into our code and SQLite by samples of `perf`; the sync is what a disk costs more than memory.

use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;

use serde_json::{Value, json};

use crate::args::CostArgs;
use crate::failure::Result;
use crate::load::{self, Load, Measured, WARM_UP};
use crate::measurement::median;
use crate::numbered_ids::Numbers;
use crate::operation::Phase;
use crate::perf::Perf;
use crate::plots::bars::{self, Bar};
use crate::process::{Server, scratch};
use crate::results::Results;
use crate::usage::thread_cpu_seconds;
use crate::{fill, output, plots, table};

/// The threads of the SQLite store (`crates/store-sqlite`); all others belong to the HTTP server.
const STORAGE: [&str; 4] = ["writer", "reader", "short-reader", "checkpointer"];
/// Pairs per second for which tasks are prepared.
const EXPECTED_PAIRS: f64 = 40_000.0;

const PARTS: [&str; 5] = ["bare HTTP", "routes, JSON, hand-over", "rules and rows", "SQLite and its file", "sync"];

/// The phases that are split.
const CASES: [(Phase, usize); 5] =
    [(Phase::Create, 64), (Phase::ClaimComplete, 64), (Phase::ClaimComplete, 1), (Phase::Get, 16), (Phase::List, 16)];

/// The parts of one case, in microseconds per request.
struct Split {
    phase: Phase,
    connections: usize,
    parts: [f64; PARTS.len()],
}

/// What one turn of a server took, in microseconds per request.
#[derive(Clone, Copy)]
struct Turn {
    storage: f64,
    whole: f64,
}

pub(crate) async fn run(args: &CostArgs, plots: Option<&Path>) -> Result<Results> {
    let reference = Server::reference()?;
    let mut splits = Vec::new();
    for (phase, connections) in CASES {
        output::progress(&format!("splitting {}, {connections} connections", phase.name()));
        splits.push(split(args, &reference, phase, connections).await?);
    }
    if let Some(folder) = plots {
        let bars: Vec<Bar> = splits.iter().map(Split::bar).collect();
        plots::save(folder, "cost.svg", &bars::render("CPU of the server per request", "us", &PARTS, &bars))?;
    }
    let figures = splits.iter().map(Split::json).collect::<Vec<_>>().into();
    Ok(Results { text: render(&splits), figures, judged: Vec::new() })
}

async fn split(args: &CostArgs, reference: &Server, phase: Phase, connections: usize) -> Result<Split> {
    let (mut bare, mut memory, mut disk, mut ours) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for _ in 0..args.rounds {
        let load = |on: &Server, known| Load { known, ..Load::new(on, phase, connections, args.seconds) };
        bare.push(load::run(load(reference, 0..1), Rc::default(), Rc::default()).await?.cpu_micros());
        for (turns, folder, sampled) in
            [(&mut memory, &args.tmpfs_dir, true), (&mut disk, &args.server.database_dir, false)]
        {
            let scratch = scratch(folder)?;
            let server = Server::on_sqlite(&args.server.binary, scratch.path())?;
            let numbers: Rc<Numbers> = Rc::default();
            let known = fill::fill(server.address, phase.queue(), tasks(phase, args.seconds), numbers.clone()).await?;
            let before = thread_cpu_seconds(server.pid())?;
            let measured = load::run(load(&server, known.clone()), numbers.clone(), Rc::default()).await?;
            turns.push(turn(&before, &thread_cpu_seconds(server.pid())?, &measured));
            if sampled {
                // In a turn of its own, because sampling costs CPU too.
                fill::fill(server.address, phase.queue(), tasks(phase, args.seconds), numbers.clone()).await?;
                ours.extend(sample(&server, scratch.path(), load(&server, known), numbers).await?);
            }
        }
    }
    let of = |turns: &[Turn], part: fn(&Turn) -> f64| median(turns.iter().map(part).collect());
    let (bare, storage) = (median(bare), of(&memory, |turn| turn.storage));
    // Without `perf` the storage stays one part.
    let ours = storage * if ours.is_empty() { 0.0 } else { median(ours) };
    let (http, whole) = (of(&memory, |turn| turn.whole - turn.storage), of(&memory, |turn| turn.whole));
    let sync = if phase.writes() { of(&disk, |turn| turn.whole) - whole } else { 0.0 };
    Ok(Split { phase, connections, parts: [bare, http - bare, ours, storage - ours, sync] })
}

async fn sample(server: &Server, folder: &Path, load: Load, numbers: Rc<Numbers>) -> Result<Option<f64>> {
    let Some(samples) = Perf::sample(server.pid(), folder) else { return Ok(None) };
    load::run(load, numbers, Rc::default()).await?;
    Ok(samples.share_of_ours(&STORAGE))
}

/// The warm-up is in the CPU of the threads and not in that of the process, so threads only give shares.
fn turn(before: &BTreeMap<String, f64>, after: &BTreeMap<String, f64>, measured: &Measured) -> Turn {
    let used = |name: &String| after[name] - before.get(name).copied().unwrap_or(0.0);
    let all: f64 = after.keys().map(used).sum();
    let storage: f64 = after.keys().filter(|name| STORAGE.contains(&name.as_str())).map(used).sum();
    let whole = measured.cpu_micros();
    Turn { storage: whole * storage / all, whole }
}

/// Tasks that a turn needs.
fn tasks(phase: Phase, seconds: f64) -> u64 {
    match phase {
        Phase::ClaimComplete => (EXPECTED_PAIRS * (seconds + WARM_UP.as_secs_f64())) as u64,
        _ => phase.prepared_tasks(),
    }
}

impl Split {
    fn bar(&self) -> Bar {
        let connections = format!("{} conn.", self.connections);
        Bar { name: [self.phase.name(), connections], parts: self.parts.to_vec() }
    }

    fn json(&self) -> Value {
        let parts: serde_json::Map<String, Value> =
            PARTS.iter().zip(self.parts).map(|(name, micros)| ((*name).to_owned(), micros.into())).collect();
        json!({ "phase": self.phase.name(), "connections": self.connections, "cpu_microseconds": parts })
    }
}

fn render(splits: &[Split]) -> String {
    let heading: Vec<&str> = ["phase", "conn"].into_iter().chain(PARTS).chain(["all, us"]).collect();
    let row = |split: &Split| {
        let numbers = split.parts.iter().copied().chain([split.parts.iter().sum()]);
        let name = [split.phase.name(), split.connections.to_string()];
        name.into_iter().chain(numbers.map(|micros: f64| format!("{micros:.1}"))).collect()
    };
    table::render(&heading, &splits.iter().map(row).collect::<Vec<_>>(), 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measurement::tests::measured;

    #[test]
    fn the_threads_of_the_storage_are_told_from_the_others() {
        let threads = |writer, other| BTreeMap::from([("writer".to_owned(), writer), ("tq-async".to_owned(), other)]);
        let turn = turn(&threads(1.0, 1.0), &threads(2.0, 4.0), &measured(1000, 0.01));
        assert!((turn.whole - 10.0).abs() < 1e-9 && (turn.storage - 2.5).abs() < 1e-9, "{}", turn.storage);
    }
}
