//! From the name of a database to an open store. The only place that names a backend.

use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use taskqueue_store::Store;
use taskqueue_store::clock::SystemClock;
use taskqueue_store_sqlite::{Options, SqliteStore};

use crate::failure::Failure;

/// Which database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Database {
    /// A file of the embedded backend.
    Sqlite(PathBuf),
}

impl FromStr for Database {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const FORM: &str = "write a path or sqlite:PATH";
        if text.starts_with("postgres://") || text.starts_with("postgresql://") {
            return Err("PostgreSQL is not supported by this build yet; write a path or sqlite:PATH");
        }
        let path = text.strip_prefix("sqlite:").unwrap_or(text);
        // SQLite has names of its own: `:memory:` would forget everything, `file:` carries options.
        let special = path.is_empty() || path.starts_with(':') || path.starts_with("file:") || path.contains("://");
        // `sqlite://x.db` looks relative and would be a file in the root directory.
        let slashes = path.starts_with("//") && !path.starts_with("///");
        if special || slashes { Err(FORM) } else { Ok(Self::Sqlite(path.into())) }
    }
}

/// Opens the store, or says why not.
pub(crate) fn open(database: &Database, outage_credit_seconds: i64) -> Result<Arc<dyn Store>, Failure> {
    let Database::Sqlite(path) = database;
    match SqliteStore::open(path, Arc::new(SystemClock::new()), &Options { outage_credit_seconds }) {
        Ok(store) => Ok(Arc::new(store)),
        Err(error) => Err(Failure::Refused(error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_is_a_path_with_or_without_its_scheme() {
        let cases = [
            ("taskqueue.db", "taskqueue.db"),
            ("/var/lib/tq.db", "/var/lib/tq.db"),
            ("sqlite:tq.db", "tq.db"),
            ("sqlite:/var/lib/tq.db", "/var/lib/tq.db"),
            ("sqlite:///var/lib/tq.db", "///var/lib/tq.db"),
            ("odd:name.db", "odd:name.db"),
        ];
        for (text, path) in cases {
            assert_eq!(text.parse(), Ok(Database::Sqlite(path.into())), "{text}");
        }
    }

    #[test]
    fn anything_else_is_refused() {
        for text in ["", "sqlite:", ":memory:", "sqlite::memory:", "file:x?mode=memory", "sqlite://x.db", "mysql://x/y"]
        {
            assert!(text.parse::<Database>().is_err(), "{text}");
        }
    }
}
