//! The largest valid instance of every request shape there is, alone and by 32 clients, on servers that may use 256 MiB, on SQLite and on
//! PostgreSQL. It holds the rules C1, C2, C3 and C5 of docs/reference/invariants.md, and it fails for an endpoint or a field that has no
//! row in its list (`shapes/operations.rs`, `shapes/pages.rs`). The tests run it at a small size.
//!
//! It does not hold C4, at either size. That rule is about what a history costs, and the one of a run is a few thousand finished tasks:
//! what each of them added to memory, to a start or to a claim would be far below what these figures vary by. `scenarios/history` measures
//! it with millions, and tests of the stores hold it by what they keep and which statements they run.

mod attack;
mod coverage;
mod exchange;
mod fields;
mod least;
mod operations;
mod pages;
pub(crate) mod probes;
mod shape;
mod world;

use std::path::Path;
use std::rc::Rc;

use taskqueue_test_postgres::Cluster;
use tokio::runtime::Builder;

use self::attack::{Measured, Target, measure};
use self::fields::Size;
use self::least::Least;
use self::operations::OPERATIONS;
use self::pages::PAGES;
use self::probes::{OF_ALL, Probed, Probes};
use self::shape::Shape;
use self::world::{Preparer, stored};
use crate::Result;
use crate::bench::Bench;
use crate::figures::{Found, progress};
use crate::server::{Server, Storage, scratch};

/// How many clients send a shape at the same time.
const CROWD: usize = 32;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    Sqlite,
    Postgres,
}

/// Sends all shapes, or a 64th of each in a run that only tries it, and tells of each as it goes.
pub(crate) async fn run(bench: &Bench, engine: Engine, found: &mut Found<'_>) -> Result<()> {
    let args = bench.args.clone();
    let size = if args.scale < 1.0 { Size::Small } else { Size::Full };
    let sending =
        tokio::task::spawn_blocking(move || send_all(engine, &args.binary, &args.database_dir, size, &args.only));
    let rows = sending.await??;
    if rows.is_empty() {
        return Ok(());
    }
    let most = |of: fn(&Measured) -> f64| rows.iter().map(of).fold(0.0, f64::max);
    found.add("shapes", rows.len() as f64);
    found.add("slowest answer alone or first of many, s", most(|row| row.slowest.as_secs_f64()));
    found.add("highest memory, MiB", most(|row| (row.peak_bytes >> 20) as f64));
    found.add("shapes that break C1, C2, C3 or C5", rows.iter().filter(|row| !row.misses.is_empty()).count() as f64);
    Ok(())
}

/// Everything that is wrong at a small size, for the tests.
pub fn check(engine: Engine, binary: &Path, folder: &Path) -> Vec<String> {
    match send_all(engine, binary, folder, Size::Small, "") {
        Ok(rows) => rows.into_iter().flat_map(|row| row.misses).collect(),
        Err(failure) => vec![failure.to_string()],
    }
}

/// Sends all shapes to a server on a fresh database of this kind, beside another one that is idle.
fn send_all(engine: Engine, binary: &Path, folder: &Path, size: Size, only: &str) -> Result<Vec<Measured>> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let cluster = (engine == Engine::Postgres).then(Cluster::private);
    let start = || {
        let storage = match &cluster {
            Some(cluster) => Storage::Postgres(Rc::new(cluster.database())),
            None => Storage::Folder(Rc::new(scratch(folder)?)),
        };
        runtime.block_on(Server::start(binary, storage, &[], Some(attack::MEMORY_BYTES)))
    };
    let (server, idle) = (start()?, start()?);
    let mut preparer = Preparer::new(server.endpoint.address, size)?;
    check_list(&mut preparer, size)?;
    preparer.prepare_world()?;
    let (probes, control) = (Probes::new(server.endpoint.address)?, Probes::new(idle.endpoint.address)?);
    let target = Target { server: &server, probes: &probes, control: &control, size };
    let (mut rows, mut all, mut all_idle) = (Vec::<Measured>::new(), Probed::default(), Probed::default());
    let name = |shape: &Shape| format!("{engine:?} {}", shape.name()).to_lowercase();
    for shape in OPERATIONS.iter().chain(PAGES).filter(|shape| name(shape).contains(&only.to_lowercase())) {
        for clients in [1, CROWD] {
            let measured = measure(&target, shape, rows.len() + 1, clients);
            let (mut measured, [probed, idle]) = measured.unwrap_or_else(|error| {
                (Measured { misses: vec![error.to_string()], ..Measured::default() }, Default::default())
            });
            let name = format!("{engine:?}, {}, {clients} at once", shape.name());
            measured.misses.iter_mut().for_each(|miss| *miss = format!("{name}: {miss}"));
            if size == Size::Full {
                progress(&format!("{name}: {}", told(&measured, &probed)));
                measured.misses.iter().for_each(|miss| progress(miss));
            }
            all.add(&probed);
            all_idle.add(&idle);
            rows.push(measured);
        }
    }
    if let Some(last) = rows.last_mut() {
        let misses = all.misses(&all_idle, OF_ALL).into_iter();
        last.misses.extend(misses.map(|miss| format!("{engine:?}, all shapes: {miss}")));
        last.misses.extend(attack::still_busy(&server));
    }
    Ok(rows)
}

/// Tells in a line what one shape did.
fn told(measured: &Measured, probed: &Probed) -> String {
    let Measured { answers, slowest, peak_bytes, .. } = measured;
    let answers: Vec<String> = answers.iter().map(|(answer, count)| format!("{count}x {answer}")).collect();
    format!(
        "{}; slowest {} ms; health p99 {:.0}, heartbeat p99 {:.0}, write max {:.0} ms, {} busy; {} MiB",
        answers.join(", "),
        slowest.as_millis(),
        probed.health.millis(0.99),
        probed.heartbeats.millis(0.99),
        probed.writes.millis(1.0),
        probed.refused.len(),
        peak_bytes >> 20
    )
}

/// Fails for whatever the list of shapes lacks.
fn check_list(preparer: &mut Preparer, size: Size) -> Result<()> {
    let mut lacking = coverage::differences(&preparer.get("/openapi.json")?.json());
    let place = fields::Place { cursor: Some(String::new()), ..stored(shape::World::Large, size) };
    for shape in OPERATIONS.iter().chain(PAGES) {
        if shape.is_read_of_stored() && shape.least == Least::Anything {
            lacking.push(format!("{}: its row does not say what its answer holds at least", shape.name()));
        }
        let unknown = shape.fields().into_iter().filter(|field| !field.has_entry(&place));
        lacking.extend(
            unknown.map(|field| format!("{}: no largest value of {} in shapes/fields.rs", shape.name(), field.name)),
        );
    }
    match lacking.is_empty() {
        true => Ok(()),
        false => {
            let begin = "the list of request shapes is not that of the server (see CONTRIBUTING.md):";
            Err(format!("{begin}\n{}", lacking.join("\n")).into())
        }
    }
}
