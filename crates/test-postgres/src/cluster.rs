//! A PostgreSQL server as tests see it: a private one, one that all tests of the process share, or an external one.

use std::env;
use std::sync::OnceLock;

use crate::address::{Address, MAINTENANCE};
use crate::control::{self, APPLICATION, Rows};
use crate::database::Database;
use crate::directory::Directory;
use crate::server::Server;
use crate::wait::eventually;

/// The URL of an external server for shared tests; its user must be a superuser.
const EXTERNAL: &str = "TASKQUEUE_TEST_POSTGRES";

pub struct Cluster {
    pub(crate) address: Address,
    /// `None` for an external server.
    server: Option<Server>,
    /// Whose server it is, if tests must not stop or configure it.
    shared_by: Option<&'static str>,
}

impl Cluster {
    /// A new server for this caller alone, removed with its files when dropped.
    #[track_caller]
    pub fn private() -> Self {
        Self::of(Server::new(Directory::on_disk()))
    }

    fn of(server: Server) -> Self {
        Self { address: server.address(), server: Some(server), shared_by: None }
    }

    /// The server that the tests of this process share, started on first use. It ends with the process, even if that is
    /// killed. If `TASKQUEUE_TEST_POSTGRES` has a URL, that server is used instead.
    #[track_caller]
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<Cluster> = OnceLock::new();
        SHARED.get_or_init(|| match env::var(EXTERNAL) {
            Ok(url) if !url.is_empty() => {
                let address = Address::external(&url);
                let address = address.unwrap_or_else(|| panic!("{EXTERNAL} is not postgres://user@host:port/name"));
                Self { address, server: None, shared_by: Some("the server of TASKQUEUE_TEST_POSTGRES") }
            }
            _ => {
                let cluster = Self::of(Server::new(Directory::in_memory()));
                Self { shared_by: Some("the server that all tests share"), ..cluster }
            }
        })
    }

    /// Whether the server was started elsewhere and outlives the tests.
    pub fn is_external(&self) -> bool {
        self.server.is_none()
    }

    /// A new, empty database with a unique name.
    #[track_caller]
    pub fn database(&self) -> Database {
        Database::create(&self.address)
    }

    /// Terminates all connections to the database except those of this crate, and waits for their end. Returns their number.
    #[track_caller]
    pub fn terminate_backends(&self, database: &Database) -> usize {
        let name = database.name();
        let rows = self.rows(&format!(
            "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE datname = '{name}'
            AND backend_type = 'client backend' AND application_name <> '{APPLICATION}'"
        ));
        rows.len()
    }

    /// Stops the server cleanly: connections end at once, committed data is kept.
    #[track_caller]
    pub fn stop(&self) {
        self.private_server().stop();
    }

    /// Kills all processes of the server at once; the next start must recover.
    #[track_caller]
    pub fn crash(&self) {
        self.private_server().crash();
    }

    /// Starts the server again at the same address, and waits until it answers.
    #[track_caller]
    pub fn start(&self) {
        self.private_server().start();
    }

    #[track_caller]
    pub fn restart(&self) {
        self.stop();
        self.start();
    }

    /// Sets `name = value`, in the syntax of `postgresql.conf`, and applies it, with a restart if needed. If the server is
    /// stopped, the setting applies from the next start.
    #[track_caller]
    pub fn configure(&self, setting: &str) {
        let server = self.private_server();
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

    #[track_caller]
    pub fn pid(&self) -> u32 {
        self.server.as_ref().expect("an external server").pid()
    }

    #[track_caller]
    fn private_server(&self) -> &Server {
        match (&self.server, self.shared_by) {
            (Some(server), None) => server,
            (_, whose) => {
                panic!("{} must not be stopped or configured: use Cluster::private()", whose.unwrap_or("this server"))
            }
        }
    }

    #[track_caller]
    fn rows(&self, sql: &str) -> Rows {
        control::run(&self.address.url(MAINTENANCE), sql).unwrap_or_else(|failure| panic!("{sql}: {failure}"))
    }
}
