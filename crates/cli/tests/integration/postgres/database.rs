//! A database per server of these tests, on the PostgreSQL that all tests of this process share.

use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::thread;

use taskqueue_test_postgres::{Cluster, patient};

/// Databases that their tests left as new, for those to come: to create and to drop one costs more than most tests.
static AS_NEW: Mutex<Vec<taskqueue_test_postgres::Database>> = Mutex::new(Vec::new());

/// Ends every connection but our own, and removes everything that servers made.
const CLEAN: &str = "
    SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity
    WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid();
    DROP SCHEMA IF EXISTS taskqueue CASCADE";

/// An empty database, and the arguments and environment for its server.
pub(crate) struct Database {
    /// Nothing only while it is dropped.
    inside: Option<taskqueue_test_postgres::Database>,
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
    /// Whether others get it afterwards.
    returns: bool,
}

impl Database {
    /// A database in which servers make their usual schema and nothing else happens.
    pub(crate) fn new() -> Self {
        let as_new = AS_NEW.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let inside = as_new.unwrap_or_else(|| Cluster::shared().database());
        Self::around(inside, !Cluster::shared().is_external())
    }

    /// A database that is this test's alone, to do with as it likes.
    pub(crate) fn fresh() -> Self {
        Self::on(Cluster::shared())
    }

    /// The same on a server of the test's own.
    pub(crate) fn on(cluster: &Cluster) -> Self {
        Self::around(cluster.database(), false)
    }

    fn around(inside: taskqueue_test_postgres::Database, returns: bool) -> Self {
        let arguments = vec!["--database".to_owned(), patient(&inside.url())];
        Self { inside: Some(inside), arguments, environment: Vec::new(), returns }
    }

    /// The same database, but servers get these arguments and this environment.
    pub(crate) fn configured_by(mut self, arguments: &[&str], environment: &[(&str, &str)]) -> Self {
        self.arguments = arguments.iter().map(|&text| text.to_owned()).collect();
        self.environment = environment.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect();
        self
    }

    /// The database itself, to read or change it directly.
    #[track_caller]
    pub(crate) fn inside(&self) -> &taskqueue_test_postgres::Database {
        assert!(!self.returns, "others get this database afterwards: take a fresh one");
        self.inside.as_ref().unwrap()
    }

    /// The folder of its files; nothing, because it has none of its own.
    pub(crate) fn folder(&self) -> Option<&Path> {
        None
    }

    /// What `--database` takes.
    pub(crate) fn argument(&self) -> String {
        self.inside.as_ref().unwrap().url()
    }

    /// Adds the database to the command line of a server.
    pub(crate) fn name_to(&self, command: &mut Command) {
        command.args(&self.arguments).envs(self.environment.iter().map(|(name, value)| (name, value)));
    }

    /// Everything that is kept: all rows of all tables, as text.
    pub(crate) fn contents(&self) -> Vec<u8> {
        let inside = self.inside.as_ref().unwrap();
        let tables = inside.rows(
            "SELECT oid::regclass::text FROM pg_class
            WHERE relkind = 'r' AND relnamespace = 'taskqueue'::regnamespace",
        );
        let rows = |table: &String| inside.rows(&format!("SELECT row::text FROM {table} AS row"));
        let values = tables.iter().flatten().flatten().flat_map(rows).flatten().flatten();
        values.flat_map(String::into_bytes).collect()
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        // A failed test may have left anything in it.
        let returning = self.inside.take().filter(|_| self.returns && !thread::panicking());
        if let Some(inside) = returning {
            inside.admin(CLEAN);
            AS_NEW.lock().unwrap_or_else(PoisonError::into_inner).push(inside);
        }
    }
}
