//! What all scenarios share: the flags, the clusters, and how servers are started.

use std::cell::OnceCell;
use std::rc::Rc;

use taskqueue_test_postgres::Cluster;

use crate::Result;
use crate::args::Args;
use crate::server::{Pile, Server, Storage, scratch};

/// Where a server runs, or which one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum On {
    /// The HTTP stack of the server without the server.
    Reference,
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
            On::Reference => return Server::reference().await,
            On::Postgres => Storage::Postgres(Rc::new(self.cluster().database())),
            On::Tmpfs => Storage::Folder(Rc::new(scratch(&self.args.tmpfs_dir)?)),
            On::Disk | On::Tls | On::Baseline => Storage::Folder(Rc::new(scratch(&self.args.database_dir)?)),
        };
        let binary = match on {
            On::Baseline => self.args.baseline.as_ref().ok_or("--baseline says which build to compare with")?,
            _ => &self.args.binary,
        };
        Server::start(binary, storage, if on == On::Tls { &["--tls-self-signed"] } else { &[] }, None).await
    }

    /// Starts a server with so much of these tasks as this run is to prepare.
    pub(crate) async fn prepared(&self, on: On, piles: &[Pile]) -> Result<Server> {
        let mut server = self.start(on).await?;
        server.prepare(piles, self.args.scale).await?;
        Ok(server)
    }

    /// So much of a number as this run is to prepare.
    pub(crate) fn scaled(&self, number: u64) -> u64 {
        (number as f64 * self.args.scale).ceil() as u64
    }

    pub(crate) fn seconds(&self, usual: f64) -> f64 {
        self.args.seconds.unwrap_or(usual)
    }
}
