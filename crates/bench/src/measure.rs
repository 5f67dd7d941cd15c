//! `taskqueue-bench run`: starts reference and server, prepares data, alternates rounds, and collects the measurements.
//! How they are shown is decided in `report.rs`, whether they suffice in `goals.rs`.

use std::cell::RefCell;
use std::ops::Range;
use std::path::Path;
use std::rc::Rc;

use clap::ValueEnum;
use tempfile::TempDir;

use crate::args::RunArgs;
use crate::double_claim_check::DoubleClaimCheck;
use crate::failure::Result;
use crate::load::{self, Load, Measured, WARM_UP};
use crate::measurement::{Measurement, Round, Storage};
use crate::numbered_ids::Numbers;
use crate::operation::Phase;
use crate::perf::Perf;
use crate::plots::lines::{self, Series};
use crate::process::{Server, scratch};
use crate::results::Results;
use crate::{disk, fill, goals, output, plots, report};

/// Pairs per second for which tasks are prepared before the first round shows how many there are.
const EXPECTED_PAIRS: f64 = 12_000.0;
const EXPECTED_PAIRS_OF_BATCHES: f64 = 60_000.0;
/// How many times the tasks that the last round took are prepared for the next.
const HEADROOM: f64 = 1.6;

/// One measurement to be taken.
#[derive(Clone, Copy)]
struct Cell {
    phase: Phase,
    connections: usize,
    rate: Option<f64>,
}

/// A server with a fresh database for one phase, and the reference.
struct MeasuredServer<'a> {
    args: &'a RunArgs,
    storage: Storage,
    server: Server,
    reference: &'a Server,
    scratch: TempDir,
    numbers: Rc<Numbers>,
    claim_check: Rc<RefCell<DoubleClaimCheck>>,
    /// Tasks that were prepared for all rounds, once they are.
    prepared: Option<Range<u64>>,
}

/// Takes all measurements. Each phase has a fresh database, so that none pays for what another has left behind.
pub(crate) async fn run(args: &RunArgs, plots: Option<&Path>) -> Result<Results> {
    let measurements = measurements(args).await?;
    if let Some(folder) = plots {
        let title = "claim, complete: requests per second by connections";
        let lines = throughput(&measurements);
        plots::save(folder, "throughput.svg", &lines::render(title, "connections", "requests/s", &lines))?;
    }
    Ok(Results {
        text: report::text(&measurements),
        figures: report::json(&measurements),
        judged: goals::judge(&measurements),
    })
}

/// Lines of claim-complete by connections: the reference, and the server on disk and in memory.
fn throughput(measurements: &[Measurement]) -> Vec<Series> {
    let of = |storage: Storage, rate: fn(&Measurement) -> f64| {
        let wanted = measurements
            .iter()
            .filter(|measurement| measurement.phase == Phase::ClaimComplete && measurement.storage == storage);
        wanted.map(|measurement| (measurement.connections as f64, rate(measurement))).collect::<Vec<_>>()
    };
    let line = |name: &str, mut points: Vec<(f64, f64)>| {
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        Series { name: name.to_owned(), points }
    };
    vec![
        line("bare HTTP", of(Storage::Disk, Measurement::reference_rate)),
        line("taskqueue on tmpfs", of(Storage::Tmpfs, Measurement::rate)),
        line("taskqueue on disk", of(Storage::Disk, Measurement::rate)),
    ]
}

async fn measurements(args: &RunArgs) -> Result<Vec<Measurement>> {
    let reference = Server::reference()?;
    let mut measurements = Vec::new();
    for (storage, folder) in [(Storage::Disk, &args.server.database_dir), (Storage::Tmpfs, &args.tmpfs_dir)] {
        for phase in phases(args, storage) {
            let mut subject = MeasuredServer::start(args, storage, folder, &reference)?;
            if phase.items_of_a_batch().is_some() && !fill::has_batches(subject.server.address).await? {
                output::progress(&format!("{} is not measured: the server has no batches", phase.name()));
                continue;
            }
            for cell in cells(args, phase) {
                let count = cell.connections;
                output::progress(&format!("measuring {} on {}, {count} connections", phase.name(), storage.name()));
                measurements.push(subject.measurement(cell).await?);
            }
        }
    }
    Ok(measurements)
}

/// Which phases are measured: what the command line says, else all. In memory only the phase that shows the
/// cost of the code without the disk.
fn phases(args: &RunArgs, storage: Storage) -> impl Iterator<Item = Phase> {
    let wanted = if args.phases.is_empty() { Phase::value_variants() } else { &args.phases };
    let in_memory = |phase: &Phase| *phase == Phase::ClaimComplete && args.tmpfs_dir.is_dir();
    wanted.iter().copied().filter(move |phase| storage == Storage::Disk || in_memory(phase))
}

/// With how many connections a phase is measured: what the command line says, else what its goals ask for.
fn cells(args: &RunArgs, phase: Phase) -> Vec<Cell> {
    let usual: &[u16] = match phase {
        Phase::ClaimComplete => &[64, 16, 1],
        Phase::Create | Phase::CreateAmongMany => &[64, 16],
        // 1,000 connected workers, besides what the goals ask for.
        Phase::Mixed => &[16, 1000],
        Phase::Poll => &[1000],
        _ => &[16],
    };
    let connections = if args.connections.is_empty() { usual } else { &args.connections };
    // Workers without work ask once a second.
    let polls = |connections: u16| (phase == Phase::Poll).then(|| f64::from(connections));
    let cell =
        |count: &u16| Cell { phase, connections: usize::from(*count), rate: args.rate.or_else(|| polls(*count)) };
    connections.iter().map(cell).collect()
}

impl<'a> MeasuredServer<'a> {
    fn start(args: &'a RunArgs, storage: Storage, folder: &Path, reference: &'a Server) -> Result<Self> {
        let scratch = scratch(folder)?;
        let server = Server::on_sqlite(&args.server.binary, scratch.path())?;
        let (numbers, claim_check, prepared) = (Rc::default(), Rc::default(), None);
        Ok(Self { args, storage, server, reference, scratch, numbers, claim_check, prepared })
    }

    async fn measurement(&mut self, cell: Cell) -> Result<Measurement> {
        let syncs_per_second = disk::syncs_per_second(self.scratch.path())?;
        let double_claims_before = self.claim_check.borrow().double_claims();
        let batches = cell.phase.items_of_a_batch().is_some();
        let (mut rounds, mut expected_pairs) =
            (Vec::new(), if batches { EXPECTED_PAIRS_OF_BATCHES } else { EXPECTED_PAIRS });
        for _ in 0..self.args.rounds {
            let known = self.prepare(cell.phase, expected_pairs).await?;
            // The reference hands out the same task over and over: its check is not used.
            let single = Cell { phase: cell.phase.without_batches(), ..cell };
            let reference = self.load(single, self.reference, known.clone(), Rc::default()).await?;
            let server = self.load(cell, &self.server, known, self.claim_check.clone()).await?;
            expected_pairs = server.pairs_rate() * HEADROOM;
            rounds.push(Round { reference, server });
        }
        let requests_per_sync = self.requests_per_sync(cell, expected_pairs).await?;
        Ok(Measurement {
            storage: self.storage,
            phase: cell.phase,
            connections: cell.connections,
            rate_wanted: cell.rate,
            rounds,
            syncs_per_second,
            requests_per_sync,
            double_claims: self.claim_check.borrow().double_claims() - double_claims_before,
        })
    }

    /// One turn of one server.
    async fn load(
        &self,
        cell: Cell,
        on: &Server,
        known: Range<u64>,
        claim_check: Rc<RefCell<DoubleClaimCheck>>,
    ) -> Result<Measured> {
        let load = Load::new(on, cell.phase, cell.connections, self.args.seconds);
        let load = Load { rate: cell.rate, known, ..load };
        load::run(load, self.numbers.clone(), claim_check).await
    }

    /// One more turn in which syncs are counted. It is about as long as the others, but its measurements are not used.
    async fn requests_per_sync(&mut self, cell: Cell, expected_pairs: f64) -> Result<Option<f64>> {
        if !cell.phase.writes() || self.storage == Storage::Tmpfs {
            return Ok(None);
        }
        let known = self.prepare(cell.phase, expected_pairs).await?;
        let Some(count) = Perf::count_syncs(self.server.pid(), self.scratch.path()) else { return Ok(None) };
        let measured = self.load(cell, &self.server, known, self.claim_check.clone()).await?;
        let syncs = count.syncs().filter(|syncs| *syncs > 0);
        Ok(syncs.map(|syncs| measured.answered as f64 / syncs as f64))
    }

    /// Makes sure that the queue of a phase holds what the phase needs; the tasks that are there to be read.
    async fn prepare(&mut self, phase: Phase, expected_pairs: f64) -> Result<Range<u64>> {
        let (address, queue) = (self.server.address, phase.queue());
        if phase.takes_prepared_tasks() {
            let wanted = expected_pairs * (WARM_UP.as_secs_f64() + self.args.seconds);
            return fill::top_up(address, queue, wanted as u64, self.numbers.clone()).await;
        }
        if let Some(known) = &self.prepared {
            return Ok(known.clone());
        }
        let known = fill::fill(address, queue, phase.prepared_tasks(), self.numbers.clone()).await?;
        self.prepared = Some(known.clone());
        Ok(known)
    }
}
