//! `taskqueue-bench peers`: the same work on what users would pick instead (rows 7 and 8 of the goals). Each peer is used
//! the way its own documentation shows; the table also says what it promises about a crash.
//! `scripts/install-bench-peers` installs them. One that is missing is reported as not measured.

mod beanstalk_wire;
mod beanstalkd;
mod daemon;
mod http;
mod node;
mod report;

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::ValueEnum;

use self::report::{Table, first_line};
use crate::args::PeersArgs;
use crate::failure::Result;
use crate::output;
use crate::process::scratch;
use crate::results::Results;

/// Something to put tasks into and to take them out of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Peer {
    /// This server on SQLite
    Taskqueue,
    /// beanstalkd with -f 0
    Beanstalkd,
    /// beanstalkd with -f 50
    BeanstalkdLazy,
    /// labtasker-server
    Labtasker,
    /// BullMQ on Redis with appendfsync always
    Bullmq,
    /// graphile-worker on PostgreSQL
    GraphileWorker,
}

impl Peer {
    fn name(self) -> &'static str {
        match self {
            Self::Taskqueue => "taskqueue",
            Self::Beanstalkd => "beanstalkd -f 0",
            Self::BeanstalkdLazy => "beanstalkd -f 50",
            Self::Labtasker => "labtasker-server",
            Self::Bullmq => "BullMQ on Redis",
            Self::GraphileWorker => "graphile-worker",
        }
    }

    /// What a power cut takes of that which was acknowledged.
    fn durability(self) -> &'static str {
        match self {
            Self::Taskqueue => "nothing is lost: synced before each answer, many answers share one sync",
            Self::Beanstalkd => "nothing is lost: its log is synced at each write",
            Self::BeanstalkdLazy => "up to 50 ms of answers are lost",
            Self::Labtasker => "nothing is lost: SQLite in WAL mode, synchronous=FULL",
            Self::Bullmq => "nothing is lost: appendfsync always, one sync for each turn of Redis's loop",
            Self::GraphileWorker => "nothing is lost: PostgreSQL with fsync and synchronous_commit on",
        }
    }

    /// How fast it is, on a fresh store.
    async fn measure(self, setting: &Setting<'_>) -> Result<Rates> {
        match self {
            Self::Taskqueue => http::taskqueue(setting).await,
            Self::Labtasker => http::labtasker(setting).await,
            Self::Beanstalkd => beanstalkd::measure(setting, 0).await,
            Self::BeanstalkdLazy => beanstalkd::measure(setting, 50).await,
            Self::Bullmq => node::bullmq(setting).await,
            Self::GraphileWorker => node::graphile_worker(setting),
        }
    }
}

struct Setting<'a> {
    args: &'a PeersArgs,
    /// Connections, or whatever a peer has in their place.
    connections: usize,
    /// A folder of its own on the disk that is measured.
    folder: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Rates {
    creations: f64,
    pairs: f64,
}

/// The rounds of a peer at one number of connections, or why there are none.
type Measured = BTreeMap<(usize, Peer), Result<Vec<Rates>, String>>;

pub(crate) async fn run(args: &PeersArgs) -> Result<Results> {
    let mut measured = Measured::new();
    let wanted = if args.peers.is_empty() { Peer::value_variants() } else { &args.peers };
    for connections in &args.connections {
        for round in 1..=args.rounds {
            for peer in wanted {
                let name = peer.name();
                output::progress(&format!("{name}, {connections} connections, round {round} of {}", args.rounds));
                let so_far = measured.entry((usize::from(*connections), *peer)).or_insert_with(|| Ok(Vec::new()));
                // What could not be measured once is not tried again.
                let Ok(rounds) = so_far else { continue };
                let scratch = scratch(&args.server.database_dir)?;
                let folder = scratch.path().to_owned();
                let setting = Setting { args, connections: usize::from(*connections), folder };
                match peer.measure(&setting).await {
                    Ok(rates) => rounds.push(rates),
                    Err(failure) => {
                        output::progress(&format!("{name} is not measured: {}", first_line(&failure.to_string())));
                        *so_far = Err(failure.to_string());
                    }
                }
            }
        }
    }
    let table = Table::new(measured);
    Ok(Results { text: table.text(), figures: table.json(), judged: table.judge() })
}
