//! The database of one test, with direct access to its rows.

use std::process;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio_postgres::error::SqlState;

use crate::address::{Address, MAINTENANCE, encode};
use crate::control;

/// How long dropping a database may take: its server may be stopped or hang.
const DROP_TIMEOUT: Duration = Duration::from_secs(10);

/// A database, dropped together with its connections when this is dropped.
pub struct Database {
    address: Address,
    name: String,
}

impl Database {
    #[track_caller]
    pub(crate) fn create(address: &Address) -> Self {
        // No client connects to template0, which would block this.
        Self::create_like(address, "template0")
    }

    /// A database with the same content. Nobody may be connected to this one.
    #[track_caller]
    pub fn copy(&self) -> Self {
        let others = "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity
            WHERE datname = current_database() AND pid <> pg_backend_pid()";
        self.admin(others);
        Self::create_like(&self.address, &self.name)
    }

    #[track_caller]
    fn create_like(address: &Address, template: &str) -> Self {
        static CREATED: AtomicU32 = AtomicU32::new(0);
        loop {
            let name = format!("tq_{}_{}", process::id(), CREATED.fetch_add(1, Ordering::Relaxed));
            match control::run(&address.url(MAINTENANCE), &format!("CREATE DATABASE {name} TEMPLATE {template}")) {
                Ok(_) => return Self { address: address.clone(), name },
                // Left on an external server by a killed process with the same id.
                Err(failure) if failure.code == Some(SqlState::DUPLICATE_DATABASE) => {}
                Err(failure) => panic!("cannot create a database: {failure}"),
            }
        }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// The URL over TCP, for the superuser, who needs no password.
    pub fn url(&self) -> String {
        self.address.url(&self.name)
    }

    /// The URL over the Unix socket.
    #[track_caller]
    pub fn socket_url(&self) -> String {
        self.address.socket_url(&self.name)
    }

    /// Makes an ordinary role with this password the owner of the database; returns its URL. The servers of this crate
    /// check the password (SCRAM).
    #[track_caller]
    pub fn password_url(&self, password: &str) -> String {
        let (name, role) = (&self.name, self.role());
        let literal = password.replace('\'', "''");
        self.admin(&format!("CREATE ROLE {role} LOGIN PASSWORD '{literal}'; ALTER DATABASE {name} OWNER TO {role}"));
        self.address.url_as(&format!("{role}:{}", encode(password)), name)
    }

    /// The owner that [`password_url`](Self::password_url) makes.
    pub fn role(&self) -> String {
        format!("{}_owner", self.name)
    }

    /// Runs statements as superuser in one transaction, and waits for them.
    #[track_caller]
    pub fn admin(&self, sql: &str) {
        self.rows(sql);
    }

    /// The rows of a query, their values as text.
    #[track_caller]
    pub fn rows(&self, sql: &str) -> Vec<Vec<Option<String>>> {
        control::run(&self.url(), sql).unwrap_or_else(|failure| panic!("{sql}: {failure}"))
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        // Fails if the server is stopped, which is fine.
        let drop = |sql: String| control::run_within(DROP_TIMEOUT, &self.address.url(MAINTENANCE), &sql).is_ok();
        if drop(format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name)) {
            drop(format!("DROP ROLE IF EXISTS {}", self.role()));
        }
    }
}
