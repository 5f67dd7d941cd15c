//! What all scenarios share: the flags, the clusters, and how servers are started.

use std::cell::OnceCell;
use std::rc::Rc;

use taskqueue_test_postgres::Cluster;

use crate::args::Args;
use crate::failure::{Failure, Result};
use crate::figures::Goal;
use crate::scenarios::{OVER_BASELINE, Scenario};
use crate::server::{Prepared, Server, Storage, scratch};

/// Where a server runs, or which one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum On {
    Disk,
    Tmpfs,
    /// On a disk, and its connections are encrypted.
    Tls,
    /// Another build, on a disk.
    Baseline,
    Postgres,
}

pub(crate) struct Bench {
    pub(crate) args: Args,
    cluster: OnceCell<Cluster>,
}

impl Bench {
    pub(crate) fn new(args: Args) -> Self {
        Self { args, cluster: OnceCell::new() }
    }

    /// The PostgreSQL of this run.
    pub(crate) fn cluster(&self) -> &Cluster {
        self.cluster.get_or_init(Cluster::private)
    }

    /// Starts a server on an empty database.
    pub(crate) async fn start(&self, on: On) -> Result<Server> {
        let storage = match on {
            On::Postgres => Storage::Postgres(Rc::new(self.cluster().database())),
            On::Tmpfs => Storage::Folder(scratch(&self.args.tmpfs_dir)?),
            On::Disk | On::Tls | On::Baseline => Storage::Folder(scratch(&self.args.database_dir)?),
        };
        let binary = match (on, &self.args.baseline) {
            (On::Baseline, Some(baseline)) => baseline,
            (On::Baseline, None) => return Err(Failure::new("--baseline says which build to compare with".to_owned())),
            _ => &self.args.binary,
        };
        Server::start(binary, storage, if on == On::Tls { &["--tls-self-signed"] } else { &[] }, None).await
    }

    /// So much of a number as this run is to prepare.
    pub(crate) fn scaled(&self, number: u64) -> u64 {
        (number as f64 * self.args.scale).ceil() as u64
    }

    pub(crate) fn prepared(&self, full: &Prepared) -> Prepared {
        let [finished, failed, delayed, chained, pending, queues] =
            [full.finished, full.failed, full.delayed, full.chained, full.pending, full.queues].map(|n| self.scaled(n));
        Prepared { finished, failed, delayed, chained, pending, queues, retention: full.retention }
    }

    pub(crate) fn seconds(&self, usual: f64) -> f64 {
        self.args.seconds.unwrap_or(usual)
    }

    /// The goals of a scenario, others against another build, none in a run that only tries it.
    pub(crate) fn goals(&self, scenario: &Scenario) -> &'static [Goal] {
        match &self.args.baseline {
            _ if self.args.scale < 1.0 => &[],
            Some(_) => OVER_BASELINE,
            None => scenario.goals,
        }
    }
}
