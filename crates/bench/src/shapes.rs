//! The largest valid instance of every request shape there is, alone and by 32 clients, on servers that may use 256 MiB, on SQLite and on
//! PostgreSQL. It holds the rules C1, C2, C3 and C5 of docs/reference/invariants.md. A test of the binary runs it at a small size; tests of
//! this crate fail for an endpoint or a field that has no row in the list (`shapes/operations.rs`, `shapes/pages.rs`).
//!
//! It does not hold C4, at either size. That rule is about what a history costs, and the one of a run is a few thousand finished tasks:
//! what each of them added to memory, to a start or to a claim would be far below what these figures vary by. `scenarios/history` measures
//! it with millions, and tests of the stores hold it by what they keep and which statements they run.

mod attack;
#[cfg(test)]
mod coverage_tests;
mod fields;
mod operations;
mod pages;
pub(crate) mod probes;
mod shape;
mod world;

use std::ffi::OsStr;
use std::path::Path;

use clap::Parser;
use tokio::task::spawn_blocking;

use self::attack::{Measured, Target, measure};
use self::fields::Size;
use self::operations::OPERATIONS;
use self::pages::PAGES;
use self::probes::{Connection, OF_ALL, Probed, Probes};
use self::shape::Shape;
use crate::CommandLine;
use crate::figures::progress;
use crate::server::Bench;
pub use crate::server::On;
use crate::{Result, block_on};

/// How many clients send a shape at the same time.
const CROWD: usize = 32;

/// Sends all shapes, and adds what the worst of them did.
pub(crate) async fn run(bench: &mut Bench, on: On) -> Result<()> {
    let rows = send_all(bench, on).await?;
    if rows.is_empty() {
        return Err(format!("no shape is called {:?}", bench.args.only).into());
    }
    bench.add("shapes", rows.len() as f64);
    bench.add("shapes that break C1, C2, C3 or C5", rows.iter().filter(|row| !row.misses.is_empty()).count() as f64);
    Ok(())
}

/// Everything that is wrong at a small size, for the tests.
pub fn check(on: On, binary: &Path, folder: &Path) -> Vec<String> {
    let words = ["taskqueue-bench", "shapes", "--scale", "0.01", "--server"].map(OsStr::new).into_iter();
    let words = words.chain([binary.as_os_str(), "--database-dir".as_ref(), folder.as_os_str()]);
    match block_on(send_all(&Bench::new(CommandLine::parse_from(words).args), on)) {
        Ok(rows) => rows.into_iter().flat_map(|row| row.misses).collect(),
        Err(failure) => vec![failure.to_string()],
    }
}

/// Sends all shapes, or a 256th of each in a run that only tries it, to a server on a fresh database of this kind, beside another one that
/// is idle.
async fn send_all(bench: &Bench, on: On) -> Result<Vec<Measured>> {
    let memory = format!("--rss={}", attack::MEMORY_BYTES);
    let runner = ["prlimit", &memory, "--"];
    let (server, idle) = (bench.start_under(&runner, on).await?, bench.start_under(&runner, on).await?);
    let size = if bench.args.scale < 1.0 { Size::Small } else { Size::Full };
    let target = Target { address: server.endpoint.address, pid: server.pid(), idle: idle.endpoint.address, size };
    let only = bench.args.only.to_lowercase();
    spawn_blocking(move || send(target, on, &only)).await?
}

/// Sends the shapes whose name contains a text, and tells of each as it goes.
fn send(target: Target, on: On, only: &str) -> Result<Vec<Measured>> {
    Connection::new(target.address).prepare_world(target.size)?;
    [target.address, target.idle].into_iter().try_for_each(Probes::prepare)?;
    let (mut rows, mut all, mut all_idle) = (Vec::<Measured>::new(), Probed::default(), Probed::default());
    let name = |shape: &Shape| format!("{on:?} {}", shape.name()).to_lowercase();
    for shape in OPERATIONS.iter().chain(PAGES).filter(|shape| name(shape).contains(only)) {
        for clients in [1, CROWD] {
            let name = format!("{on:?}, {}, {clients} at once", shape.name());
            let measured = measure(target, shape, rows.len() + 1, clients);
            let mut measured =
                measured.unwrap_or_else(|error| Measured { misses: vec![error.to_string()], ..Measured::default() });
            measured.misses.iter_mut().for_each(|miss| *miss = format!("{name}: {miss}"));
            if target.size == Size::Full {
                progress(&format!("{name}: {} MiB", measured.peak_bytes >> 20));
                measured.misses.iter().for_each(|miss| progress(miss));
            }
            all.add(&measured.probed);
            all_idle.add(&measured.idle);
            rows.push(measured);
        }
    }
    if let Some(last) = rows.last_mut() {
        let misses = all.misses(&all_idle, OF_ALL).into_iter();
        last.misses.extend(misses.map(|miss| format!("{on:?}, all shapes: {miss}")));
        last.misses.extend(attack::still_busy(target.pid));
    }
    Ok(rows)
}
