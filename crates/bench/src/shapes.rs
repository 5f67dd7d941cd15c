//! `taskqueue-bench shapes`: the largest valid instance of every request shape there is, alone and by 32 clients, on servers that may
//! use 256 MiB, on SQLite and on PostgreSQL. It holds the rules C1, C2, C3 and C5 of docs/reference/invariants.md, and it fails for an
//! endpoint or a field that has no row in its list (`shapes/operations.rs`, `shapes/pages.rs`). The tests run it at a small size.
//!
//! It does not hold C4, at either size. That rule is about what a history costs, and the one of a run is a few thousand finished tasks:
//! what each of them added to memory, to a start or to a claim would be far below what these figures vary by. `history` measures it with
//! millions, and tests of the stores hold it by what they keep and which statements they run.

mod attack;
mod coverage;
mod exchange;
mod fields;
mod least;
mod operations;
mod pages;
mod probes;
mod shape;
mod world;

use std::ffi::OsStr;
use std::path::Path;
use std::time::Duration;

use clap::ValueEnum;
use serde_json::{Value, json};
use taskqueue_test_postgres::{Cluster, patient};

pub use self::fields::Size;

use self::attack::{Measured, Target, measure};
use self::least::Least;
use self::operations::OPERATIONS;
use self::pages::PAGES;
use self::probes::{Beside, Probed, Probes, longest, p99};
use self::shape::Shape;
use self::world::{Client, stored};
use crate::args::ShapesArgs;
use crate::failure::{Failure, Result};
use crate::goals::Judged;
use crate::process::{Server, scratch};
use crate::results::Results;
use crate::{output, table};

/// How many clients send a shape at the same time.
const CROWD: usize = 32;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Engine {
    Sqlite,
    Postgres,
}

/// What one shape did on one engine.
struct Row {
    engine: Engine,
    shape: &'static Shape,
    measured: Measured,
}

pub(crate) async fn run(args: &ShapesArgs) -> Result<Results> {
    let mut rows = Vec::new();
    for engine in &args.engines {
        rows.extend(on(*engine, &args.server.binary, &args.server.database_dir, args.size, &args.only)?);
    }
    let broken = |engine| rows.iter().filter(|row| row.engine == engine && !row.measured.is_held()).count();
    let judge = |engine: &Engine| {
        Judged::at_most(
            44,
            &format!("shapes that break C1, C2, C3 or C5, {engine:?}"),
            broken(*engine) as f64,
            0.0,
            0.0,
        )
    };
    let misses = rows.iter().flat_map(Row::misses).collect::<Vec<_>>().join("\n");
    let heading = [
        "engine",
        "shape",
        "clients",
        "answers",
        "slowest ms",
        "health p99",
        "heartbeat p99",
        "writes max",
        "busy",
        "MiB",
        "",
    ];
    Ok(Results {
        text: format!("{}\n\n{misses}", table::render(&heading, &rows.iter().map(Row::cells).collect::<Vec<_>>(), 4)),
        figures: rows.iter().map(Row::json).collect::<Vec<_>>().into(),
        judged: args.engines.iter().map(judge).collect(),
    })
}

/// Everything that is wrong at a small size, for the tests.
pub fn check(engine: Engine, binary: &Path, folder: &Path) -> Vec<String> {
    match on(engine, binary, folder, Size::Small, "") {
        Ok(rows) => rows.iter().flat_map(Row::misses).collect(),
        Err(failure) => vec![failure.to_string()],
    }
}

/// Sends all shapes to a server on a fresh database of this kind, beside another one that is idle.
fn on(engine: Engine, binary: &Path, folder: &Path, size: Size, only: &str) -> Result<Vec<Row>> {
    let start = |database: &OsStr| Server::within(binary, database, attack::MEMORY_BYTES);
    match engine {
        Engine::Sqlite => {
            let (folder, idle) = (scratch(folder)?, scratch(folder)?);
            let [server, idle] = [&folder, &idle].map(|folder| start(folder.path().join("bench.db").as_os_str()));
            send_all(engine, &server?, &idle?, size, only)
        }
        Engine::Postgres => {
            let cluster = Cluster::private();
            let databases = [cluster.database(), cluster.database()];
            let [server, idle] = databases.each_ref().map(|database| start(patient(&database.url()).as_ref()));
            send_all(engine, &server?, &idle?, size, only)
        }
    }
}

fn send_all(engine: Engine, server: &Server, idle: &Server, size: Size, only: &str) -> Result<Vec<Row>> {
    let mut client = Client::new(server.address, size);
    check_list(&mut client, size)?;
    client.prepare_world()?;
    let (probes, control) = (Probes::new(server.address)?, Probes::new(idle.address)?);
    let target = Target { server, probes: &probes, control: &control, size };
    let (mut rows, mut turn) = (Vec::new(), 0);
    for shape in OPERATIONS.iter().chain(PAGES).filter(|shape| shape.name().contains(only)) {
        for clients in [1, CROWD] {
            turn += 1;
            let measured = measure(&target, shape, turn, clients);
            let measured = measured.unwrap_or_else(|failure| Measured::failed(clients, &failure));
            let row = Row { engine, shape, measured };
            if size == Size::Full {
                output::progress(&row.cells().join("  "));
                row.misses().iter().for_each(|miss| output::progress(miss));
            }
            rows.push(row);
        }
    }
    let all = Probed::merged(rows.iter().map(|row| &row.measured.probed));
    let of_all = all.misses(&Probed::merged(rows.iter().map(|row| &row.measured.idle)), Beside::All);
    if let Some(last) = rows.last_mut() {
        last.measured.misses.extend(of_all.iter().map(|miss| format!("and all before it: {miss}")));
        last.measured.misses.extend(attack::still_busy(server));
    }
    Ok(rows)
}

/// Fails for whatever the list of shapes lacks.
fn check_list(client: &mut Client, size: Size) -> Result<()> {
    let document: Value = serde_json::from_slice(&client.get("/openapi.json")?.body)
        .map_err(|error| Failure::new(format!("/openapi.json: {error}")))?;
    let mut lacking = coverage::differences(&document);
    lacking.extend(coverage::page_differences());
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
        false => Err(Failure::new(format!(
            "the list of request shapes is not that of the server (see CONTRIBUTING.md):\n{}",
            lacking.join("\n")
        ))),
    }
}

fn milliseconds(taken: Duration) -> String {
    taken.as_millis().to_string()
}

impl Row {
    fn cells(&self) -> Vec<String> {
        let Measured { clients, answers, slowest, probed, peak_bytes, .. } = &self.measured;
        let answers: Vec<String> = answers.iter().map(|(answer, count)| format!("{count}x {answer}")).collect();
        vec![
            format!("{:?}", self.engine),
            self.shape.name(),
            clients.to_string(),
            answers.join(", "),
            milliseconds(*slowest),
            milliseconds(p99(&probed.health)),
            milliseconds(p99(&probed.heartbeats)),
            milliseconds(longest(&probed.writes)),
            probed.refused.len().to_string(),
            (peak_bytes >> 20).to_string(),
            if self.measured.is_held() { String::new() } else { "BROKEN".to_owned() },
        ]
    }

    fn misses(&self) -> Vec<String> {
        let (name, clients) = (self.shape.name(), self.measured.clients);
        self.measured
            .misses
            .iter()
            .map(|miss| format!("{:?}, {name}, {clients} at once: {miss}", self.engine))
            .collect()
    }

    fn json(&self) -> Value {
        let Measured { clients, answers, slowest, probed, peak_bytes, misses, .. } = &self.measured;
        json!({
            "engine": format!("{:?}", self.engine), "shape": self.shape.name(), "clients": clients, "answers": answers,
            "slowest_nanoseconds": slowest.as_nanos() as u64, "health_p99_nanoseconds": p99(&probed.health).as_nanos() as u64,
            "heartbeat_p99_nanoseconds": p99(&probed.heartbeats).as_nanos() as u64,
            "write_max_nanoseconds": longest(&probed.writes).as_nanos() as u64,
            "creations_refused": probed.refused.len(), "peak_bytes": peak_bytes, "misses": misses,
        })
    }
}
