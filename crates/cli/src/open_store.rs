//! Opens the store of a database. The only place that names both backends.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use taskqueue_server::memory_plan::MemoryPlan;
use taskqueue_store::Store;
use taskqueue_store::check::{CheckError, Report, Watch};
use taskqueue_store::clock::SystemClock;
use taskqueue_store::transfer::{Source, Target, TransferError};
use taskqueue_store_postgres::{self as postgres, Address, Concurrency, PostgresStore, PostgresTransfer};
use taskqueue_store_sqlite::{self as sqlite, SqliteStore, SqliteTransfer};

use crate::args::ServeArgs;
use crate::failure::Failure;

/// The environment variable of PostgreSQL's own programs, for URLs without a password.
const PASSWORD: &str = "PGPASSWORD";

#[derive(Clone, Debug)]
pub(crate) enum Database {
    Sqlite(PathBuf),
    Postgres(Box<Address>),
}

/// Without password.
impl fmt::Display for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sqlite(path) => fmt::Display::fmt(&path.display(), f),
            Self::Postgres(address) => fmt::Display::fmt(address, f),
        }
    }
}

impl FromStr for Database {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const FORM: &str = "write a path, sqlite:PATH or postgres://USER@HOST/DATABASE";
        if text.starts_with("postgres:") || text.starts_with("postgresql:") {
            return Address::parse(text)
                .map(|address| Self::Postgres(address.into()))
                .map_err(|error| error.to_string());
        }
        let path = text.strip_prefix("sqlite:").unwrap_or(text);
        // Special names of SQLite: `:memory:` is not durable, `file:` has options.
        let special = path.is_empty() || path.starts_with(':') || path.starts_with("file:") || path.contains("://");
        // `sqlite://x.db` looks relative but would be a file in the root directory.
        let slashes = path.starts_with("//") && !path.starts_with("///");
        if special || slashes { Err(FORM.to_owned()) } else { Ok(Self::Sqlite(path.into())) }
    }
}

/// The reason why a store is not open.
pub(crate) struct NotOpened {
    pub(crate) failure: Failure,
    /// True if it may be opened later, although nobody changes anything.
    pub(crate) may_pass: bool,
}

impl From<Failure> for NotOpened {
    fn from(failure: Failure) -> Self {
        Self { failure, may_pass: false }
    }
}

/// Opens the database of a server. Only one in PostgreSQL has a schema.
pub(crate) async fn open(args: &ServeArgs) -> Result<Arc<dyn Store>, NotOpened> {
    let (schema, outage_credit_seconds) = (args.database_schema.as_deref(), args.outage_credit);
    refuse_schema("--database-schema", &args.database, schema)?;
    let MemoryPlan { pending_bytes, long_reads, is_small, .. } = MemoryPlan::of_this_process();
    match &args.database {
        Database::Sqlite(path) => {
            let options = sqlite::Options { outage_credit_seconds, pending_bytes, long_reads, ..Default::default() };
            let store = SqliteStore::open(path, Arc::new(SystemClock::default()), &options);
            store.map(|store| Arc::new(store) as _).map_err(|error| Failure::Refused(error.to_string()).into())
        }
        Database::Postgres(address) => {
            let schema = schema_or_default(schema);
            let concurrency = if is_small { Concurrency::WITH_LITTLE_MEMORY } else { Concurrency::default() };
            let options = postgres::Options { schema, outage_credit_seconds, concurrency, ..Default::default() };
            let store = PostgresStore::open(with_password(address), options).await;
            store.map(|store| Arc::new(store) as _).map_err(|error| {
                let may_pass = error.may_pass();
                NotOpened { failure: Failure::Refused(error.to_string()), may_pass }
            })
        }
    }
}

/// Opens the database to copy from.
pub(crate) async fn source(database: &Database, schema: Option<&str>) -> Result<Box<dyn Source>, Failure> {
    refuse_schema("--from-schema", database, schema)?;
    let opened: Result<Box<dyn Source>, TransferError> = match database {
        Database::Sqlite(path) => SqliteTransfer::source(path).map(|side| Box::new(side) as _),
        Database::Postgres(address) => {
            let side = PostgresTransfer::source(with_password(address), &schema_or_default(schema)).await;
            side.map(|side| Box::new(side) as _)
        }
    };
    opened.map_err(|error| side_refused("--from", &error))
}

/// Opens the database to copy to.
pub(crate) async fn target(database: &Database, schema: Option<&str>) -> Result<Box<dyn Target>, Failure> {
    refuse_schema("--to-schema", database, schema)?;
    let opened: Result<Box<dyn Target>, TransferError> = match database {
        Database::Sqlite(path) => SqliteTransfer::target(path).map(|side| Box::new(side) as _),
        Database::Postgres(address) => {
            let side = PostgresTransfer::target(with_password(address), &schema_or_default(schema)).await;
            side.map(|side| Box::new(side) as _)
        }
    };
    opened.map_err(|error| side_refused("--to", &error))
}

pub(crate) async fn check_schema(
    address: &Address,
    schema: Option<&str>,
    watch: &mut Watch<'_>,
) -> Result<Report, CheckError> {
    postgres::check(with_password(address), &schema_or_default(schema), watch).await
}

/// Refuses the schema of an SQLite file: only PostgreSQL has schemas.
pub(crate) fn refuse_schema(flag: &str, database: &Database, schema: Option<&str>) -> Result<(), Failure> {
    match (database, schema) {
        (Database::Sqlite(_), Some(_)) => {
            Err(Failure::Usage(format!("{flag} is for PostgreSQL; an SQLite file has no schemas")))
        }
        _ => Ok(()),
    }
}

fn with_password(address: &Address) -> Address {
    address.clone().with_password(std::env::var(PASSWORD).ok())
}

fn schema_or_default(schema: Option<&str>) -> String {
    schema.map_or_else(|| postgres::Options::default().schema, str::to_owned)
}

/// The stores speak of the one flag that a server has for its database.
fn side_refused(flag: &str, error: &TransferError) -> Failure {
    Failure::Refused(format!("{flag}: {}", error.to_string().replace("--database", flag)))
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
            let parsed = text.parse();
            assert!(matches!(&parsed, Ok(Database::Sqlite(found)) if found.as_os_str() == path), "{text}: {parsed:?}");
        }
    }

    #[test]
    fn a_url_is_a_postgresql_database_and_its_password_is_never_shown() {
        for text in ["postgres://u:secret@h/d", "postgresql://u:secret@h:5433,i/d?sslmode=verify-full"] {
            let parsed = text.parse::<Database>();
            assert!(matches!(parsed, Ok(Database::Postgres(_))), "{text}");
            assert!(!format!("{parsed:?}").contains("secret"));
        }
        let wrong = "postgres://u:secret@h/d?sslmode=maybe".parse::<Database>();
        let is_told = |message: &String| message.contains("sslmode") && !message.contains("secret");
        assert!(wrong.as_ref().is_err_and(is_told), "{wrong:?}");
    }

    #[test]
    fn anything_else_is_refused() {
        for text in ["", "sqlite:", ":memory:", "sqlite::memory:", "file:x?mode=memory", "sqlite://x.db", "mysql://x/y"]
        {
            assert!(text.parse::<Database>().is_err(), "{text}");
        }
    }
}
