//! A PostgreSQL server as tests see it: one of their own, one that all tests of the process share, or one that somebody
//! else runs.

use std::env;
use std::sync::OnceLock;

use crate::address::{Address, MAINTENANCE};
use crate::control::{self, APPLICATION, Rows};
use crate::database::Database;
use crate::server::Server;
use crate::wait::eventually;

/// The URL of a server that shared tests use instead of one of ours; its user must be a superuser.
const FOREIGN: &str = "TASKQUEUE_TEST_POSTGRES";

/// A PostgreSQL server.
pub struct Cluster {
    pub(crate) address: Address,
    /// Nothing if somebody else runs it.
    server: Option<Server>,
    /// Why nobody may stop it, if so.
    untouchable: Option<&'static str>,
}

impl Cluster {
    /// A new server for this caller alone, gone with its files when dropped.
    #[track_caller]
    pub fn private() -> Self {
        let server = Server::new();
        Self { address: server.address(), server: Some(server), untouchable: None }
    }

    /// The server that the tests of this process share, started for the first that asks. It ends with the process,
    /// however that ends. If `TASKQUEUE_TEST_POSTGRES` has a URL, it is the server there, and nothing is started.
    #[track_caller]
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<Cluster> = OnceLock::new();
        SHARED.get_or_init(|| match env::var(FOREIGN) {
            Ok(url) if !url.is_empty() => {
                let address = Address::foreign(&url);
                let address = address.unwrap_or_else(|| panic!("{FOREIGN} is not postgres://user@host:port/name"));
                Self { address, server: None, untouchable: Some("the server of TASKQUEUE_TEST_POSTGRES") }
            }
            _ => Self { untouchable: Some("the server that all tests share"), ..Self::private() },
        })
    }

    /// Whether somebody else runs it, so that it outlives us with all that we leave there.
    pub fn is_foreign(&self) -> bool {
        self.server.is_none()
    }

    /// A new, empty database with a name of its own.
    #[track_caller]
    pub fn database(&self) -> Database {
        Database::create(&self.address)
    }

    /// Ends all connections to the database but our own, as an administrator would, and waits until they are gone.
    /// Gives their number.
    #[track_caller]
    pub fn terminate_backends(&self, database: &Database) -> usize {
        let name = database.name();
        let rows = self.rows(&format!(
            "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE datname = '{name}'
            AND backend_type = 'client backend' AND application_name <> '{APPLICATION}'"
        ));
        rows.len()
    }

    /// Stops the server in good order: connections end at once, what was committed is there at the next start.
    #[track_caller]
    pub fn stop(&self) {
        self.own().stop();
    }

    /// Kills the server and all its processes at one moment; the next start has to recover.
    #[track_caller]
    pub fn crash(&self) {
        self.own().crash();
    }

    /// Starts the server again at the same addresses, and waits until it answers.
    #[track_caller]
    pub fn start(&self) {
        self.own().start();
    }

    /// Stops and starts the server.
    #[track_caller]
    pub fn restart(&self) {
        self.stop();
        self.start();
    }

    /// Sets `name = value`, in the syntax of `postgresql.conf`, and makes it count: with a restart where it needs one.
    /// A server that does not run has it when it is started.
    #[track_caller]
    pub fn configure(&self, setting: &str) {
        let server = self.own();
        server.append(setting);
        if !server.is_running() {
            return;
        }
        let name = setting.split('=').next().unwrap_or_default().trim();
        let context = self.rows(&format!("SELECT context FROM pg_settings WHERE name = lower('{name}')"));
        if context == [[Some("postmaster".to_owned())]] {
            return self.restart();
        }
        let loaded = || self.rows("SELECT pg_conf_load_time()");
        let before = loaded();
        self.rows("SELECT pg_reload_conf()");
        eventually("the settings are read again", || loaded() != before);
        let wrong = self.rows("SELECT error FROM pg_file_settings WHERE error IS NOT NULL");
        assert!(wrong.is_empty(), "{setting}: {wrong:?}");
    }

    /// The process id of the server.
    #[track_caller]
    pub fn pid(&self) -> u32 {
        self.server.as_ref().expect("somebody else runs the server").pid()
    }

    #[track_caller]
    fn own(&self) -> &Server {
        match (&self.server, self.untouchable) {
            (Some(server), None) => server,
            (_, whose) => panic!("{} is not to be touched: use Cluster::private()", whose.unwrap_or("this server")),
        }
    }

    #[track_caller]
    fn rows(&self, sql: &str) -> Rows {
        control::run(&self.address.url(MAINTENANCE), sql).unwrap_or_else(|failure| panic!("{sql}: {failure}"))
    }
}
