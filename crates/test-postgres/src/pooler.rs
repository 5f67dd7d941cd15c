//! PgBouncer between a test and its server. Debian's version (1.18) does not support prepared statements of the protocol
//! (1.21 does): a statement prepared in one transaction may be unknown, or another client's, in the next.

use std::fs;
use std::str::FromStr;

use tokio_postgres::Config;
use tokio_postgres::config::Host;

use crate::address::{Address, MAINTENANCE};
use crate::cluster::Cluster;
use crate::control;
use crate::database::Database;
use crate::directory::Directory;
use crate::port::free_port;
use crate::process::Process;
use crate::programs::tool;

/// How many ports are tried: another process may take one first.
const PORT_TRIES: usize = 5;

/// How long a client keeps its connection to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolMode {
    /// Until it disconnects.
    Session,
    /// Until its transaction ends.
    Transaction,
    /// Until its statement ends.
    Statement,
}

/// A PgBouncer in front of a cluster, stopped when dropped.
pub struct Pooler {
    // Dropped in this order: the process has ended when its directory is removed.
    process: Process,
    address: Address,
    _directory: Directory,
}

impl Pooler {
    /// Starts a pooler, and waits until the database can be reached through it.
    #[track_caller]
    pub fn start(cluster: &Cluster, database: &Database, mode: PoolMode) -> Self {
        let mut log = String::new();
        for _ in 0..PORT_TRIES {
            match Self::launch(cluster, database, mode) {
                Ok(pooler) => return pooler,
                Err(lines) => log = lines,
            }
        }
        panic!("PgBouncer does not start:\n{log}")
    }

    fn launch(cluster: &Cluster, database: &Database, mode: PoolMode) -> Result<Self, String> {
        let directory = Directory::on_disk();
        let settings_file = directory.path().join("pgbouncer.ini");
        let port = free_port();
        fs::write(&settings_file, settings(cluster, mode, port)).expect("a file in our directory");
        let mut command = directory.command(tool("pgbouncer"), "KILL");
        command.arg("--quiet").arg(settings_file);
        let address = cluster.address.through(format!("127.0.0.1:{port}"));
        let url = address.url(database.name());
        match Process::answering(command, || control::run(&url, "SELECT").is_ok()) {
            Some(process) => Ok(Self { process, address, _directory: directory }),
            None => Err(directory.last_lines()),
        }
    }

    /// The URL of a database of the cluster through the pooler.
    pub fn url(&self, database: &Database) -> String {
        self.address.url(database.name())
    }

    pub fn pid(&self) -> u32 {
        self.process.pid()
    }
}

/// Every database of the cluster, always as its superuser and without a password.
fn settings(cluster: &Cluster, mode: PoolMode, port: u16) -> String {
    let server = Config::from_str(&cluster.address.url(MAINTENANCE)).expect("the URL was used already");
    let host = match server.get_hosts().first() {
        Some(Host::Tcp(host)) => host.clone(),
        Some(Host::Unix(folder)) => folder.display().to_string(),
        None => panic!("the URL of the server has no host"),
    };
    let user = server.get_user().expect("the URL of the server has a user");
    let password = server.get_password().map(|password| String::from_utf8_lossy(password).replace('\'', "''"));
    let password = password.map(|password| format!(" password='{password}'")).unwrap_or_default();
    let server_port = server.get_ports().first().copied().unwrap_or(5432);
    let mode = format!("{mode:?}").to_lowercase();
    format!(
        "[databases]
* = host={host} port={server_port} user={user}{password}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = {mode}
"
    )
}
