//! Opening a database: how a connection is made, what is refused and why. What the schema must be is decided in
//! `migrate.rs`.

use std::collections::hash_map::RandomState;
use std::future::poll_fn;
use std::hash::{BuildHasher, Hasher};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use taskqueue_store::StoreError;
use thiserror::Error;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};
use tokio_postgres::error::SqlState;
use tokio_postgres::tls::TlsStream;
use tokio_postgres::{AsyncMessage, CancelToken, Client, Connection, Error, Socket};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::address::{Address, Place};
use crate::failure::describe;
use crate::session::{Schema, Session, Sql};
use crate::tls;

/// The oldest PostgreSQL that is tested, as `server_version_num` says it.
const OLDEST_VERSION: i32 = 130_000;
/// PostgreSQL cuts longer names off.
const NAME_BYTES: usize = 63;

/// Why a database was not opened. Each is one line that says what to do; the first field says where.
#[derive(Debug, Error)]
pub enum OpenError {
    /// Nobody answers there.
    #[error("cannot reach PostgreSQL at {0}: {1}; check the address, and that the server runs and lets this host in")]
    Unreachable(String, String),
    /// It does not let us in.
    #[error("PostgreSQL at {0} refuses the login: {1}; check user and password (URL or PGPASSWORD) and pg_hba.conf")]
    Refused(String, String),
    /// The database is not there.
    #[error("PostgreSQL at {0}: {1}; create it, or name another database in the URL")]
    NoDatabase(String, String),
    /// It has no connection left for us.
    #[error("PostgreSQL at {0} has no connection left: {1}; raise max_connections or stop other clients")]
    Full(String, String),
    /// There is no TLS with it, or not as it was asked for.
    #[error(
        "no TLS with PostgreSQL at {0}: {1}; check sslmode and sslrootcert in the URL, and the server's certificate"
    )]
    Tls(String, String),
    /// A certificate or key that the URL names is of no use.
    #[error("cannot use {0}={1} of the PostgreSQL URL: {2}; name a readable PEM file, its key without a password")]
    Certificate(&'static str, PathBuf, String),
    /// It is too old.
    #[error("PostgreSQL at {0} is version {1}; use PostgreSQL 13 or newer")]
    TooOld(String, String),
    /// It takes no writes.
    #[error("PostgreSQL at {0} is a standby or read-only; name the primary in the URL")]
    ReadOnly(String),
    /// It cannot hold every text.
    #[error("the database at {0} has the encoding {1}; create it with ENCODING 'UTF8' TEMPLATE template0")]
    Encoding(String, String),
    /// A schema cannot have this name.
    #[error("{0:?} cannot be the name of a schema; choose one of 1 to {NAME_BYTES} bytes that does not begin with pg_")]
    SchemaName(String),
    /// The schema is of something else.
    #[error("schema {0:?} holds tables of another program; choose another schema")]
    Foreign(String),
    /// The schema was written by a newer version.
    #[error("schema {0:?} was written by a newer taskqueue ({1}); upgrade this program")]
    Newer(String, String),
    /// The schema's migrations are not the ones of this program.
    #[error("schema {0:?} is not as this program knows it ({1}); use the taskqueue that wrote it")]
    Changed(String, String),
    /// The role may not do what is needed.
    #[error(
        "no right to set up schema {0:?}: {1}; let its owner start taskqueue once, or CREATE SCHEMA ... AUTHORIZATION this role"
    )]
    NoRight(String, String),
    /// Another server has been at the schema for too long.
    #[error(
        "another server has been migrating schema {0:?} for too long; wait for it or end its session, then start again"
    )]
    Migrating(String),
    /// Anything else.
    #[error("PostgreSQL at {0} failed: {1}; its log says more")]
    Failed(String, String),
}

/// Why there is no connection.
#[derive(Debug)]
pub(crate) enum ConnectError {
    /// Nobody answered in time.
    Timeout(Duration),
    /// What the driver says.
    Driver(Error),
}

impl From<Error> for ConnectError {
    fn from(error: Error) -> Self {
        Self::Driver(error)
    }
}

impl ConnectError {
    /// What the caller may know; the rest is logged.
    pub(crate) fn failed(&self, doing: &'static str) -> StoreError {
        let error = self.describe();
        if let Self::Driver(driver) = self
            && driver.code() == Some(&SqlState::TOO_MANY_CONNECTIONS)
        {
            tracing::warn!(doing, error, "the database has no connection left");
            return StoreError::Busy;
        }
        tracing::error!(doing, error, "cannot connect to the database");
        StoreError::Unavailable
    }

    pub(crate) fn describe(&self) -> String {
        match self {
            Self::Timeout(limit) => format!("no answer within {limit:?}"),
            Self::Driver(error) => describe(error),
        }
    }

    /// Whether the server itself told us, so that no other host's silence tells more.
    fn was_told(&self) -> bool {
        matches!(self, Self::Driver(error) if error.as_db_error().is_some())
    }

    /// What it means to somebody who wants to open the database.
    fn into_open_error(self, at: String) -> OpenError {
        let text = self.describe();
        let Self::Driver(error) = self else { return OpenError::Unreachable(at, text) };
        match error.code().map(SqlState::code) {
            // The class "invalid authorization", and no right to connect to the database.
            Some(code) if code.starts_with("28") || code == "42501" => OpenError::Refused(at, text),
            Some("3D000") => OpenError::NoDatabase(at, text),
            Some("53300") => OpenError::Full(at, text),
            // Starting, stopping or recovering; an administrator's command; lost underway.
            Some(code) if code.starts_with("57P") || code.starts_with("08") => OpenError::Unreachable(at, text),
            Some(_) => OpenError::Failed(at, text),
            // The driver keeps the kind of its errors to itself, except in these words.
            None => match error.to_string().as_str() {
                "error performing TLS handshake" => OpenError::Tls(at, text),
                "authentication error" | "invalid configuration" => OpenError::Refused(at, text),
                _ if text.contains("database does not allow writes") => OpenError::ReadOnly(at),
                _ => OpenError::Unreachable(at, text),
            },
        }
    }
}

/// Makes connections to one database.
pub(crate) struct Connector {
    address: Address,
    places: Vec<Place>,
    tls: MakeRustlsConnect,
    schema: Schema,
    /// Whether this process goes without prepared statements.
    unnamed: Arc<AtomicBool>,
}

impl Connector {
    /// Reads the certificates that the address names; connects to nothing yet.
    pub(crate) fn new(address: Address, schema: Schema) -> Result<Self, OpenError> {
        let name = schema.name();
        if name.is_empty() || name.len() > NAME_BYTES || name.contains('\0') || name.starts_with("pg_") {
            return Err(OpenError::SchemaName(name.to_owned()));
        }
        let (tls, places) = (tls::connector(&address)?, address.places());
        Ok(Self { address, places, tls, schema, unnamed: Arc::default() })
    }

    /// The schema that is meant.
    pub(crate) fn schema(&self) -> &Schema {
        &self.schema
    }

    /// The hosts, for messages.
    pub(crate) fn hosts(&self) -> String {
        self.address.hosts()
    }

    /// A connection to the first host that gives one, within the time that the address allows. Each host has an equal
    /// share of what is left, so that one that is silent does not hide the others.
    pub(crate) async fn client(&self) -> Result<Client, ConnectError> {
        self.connect(None).await
    }

    /// The same, and what the connection is notified of goes to `heard`, as long as there is room.
    pub(crate) async fn listening_client(&self, heard: mpsc::Sender<String>) -> Result<Client, ConnectError> {
        self.connect(Some(heard)).await
    }

    async fn connect(&self, heard: Option<mpsc::Sender<String>>) -> Result<Client, ConnectError> {
        let limit = self.address.connect_timeout();
        let end = Instant::now() + limit;
        let mut failure = ConnectError::Timeout(limit);
        for (tried, place) in self.order().enumerate() {
            let left = u32::try_from(self.places.len() - tried).unwrap_or(u32::MAX);
            let share = end.saturating_duration_since(Instant::now()) / left;
            let error = match timeout(share, place.config.connect(self.tls.clone())).await {
                Ok(Ok((client, connection))) => {
                    tokio::spawn(attend(connection, heard));
                    return Ok(client);
                }
                Ok(Err(error)) => ConnectError::Driver(error),
                Err(_) => ConnectError::Timeout(share),
            };
            tracing::debug!(place = place.name, error = error.describe(), "this host gave no connection");
            if !failure.was_told() || error.was_told() {
                failure = error;
            }
        }
        Err(failure)
    }

    /// A connection with statements prepared.
    pub(crate) async fn session(&self, statements: &[&'static Sql]) -> Result<Session, ConnectError> {
        let client = self.client().await?;
        let session = Session::new(client, self.schema.clone(), statements, Arc::clone(&self.unnamed));
        let limit = self.address.connect_timeout();
        Ok(timeout(limit, session).await.map_err(|_| ConnectError::Timeout(limit))??)
    }

    /// Asks the server to stop what a connection is doing, in bounded time. Whether it did is not told.
    pub(crate) fn canceller(&self, token: CancelToken) -> impl Future<Output = ()> + Send + 'static {
        let (limit, tls) = (self.address.connect_timeout(), self.tls.clone());
        async move {
            if !matches!(timeout(limit, token.cancel_query(tls)).await, Ok(Ok(()))) {
                tracing::debug!("a statement that nobody waits for could not be stopped");
            }
        }
    }

    /// The first connection: says in full why there is none, or why the database is not one for us.
    pub(crate) async fn open(&self) -> Result<Client, OpenError> {
        let at = || self.hosts();
        let client = self.client().await.map_err(|error| error.into_open_error(at()))?;
        let failed = |error: Error| ConnectError::Driver(error).into_open_error(at());
        let question = "SELECT current_setting('server_version_num')::int4, current_setting('server_version'),
            current_setting('server_encoding'), current_setting('transaction_read_only')::bool";
        let row = client.query_typed(question, &[]).await.map_err(failed)?.into_iter().next();
        let row = row.ok_or_else(|| OpenError::Failed(at(), "it does not tell its version".to_owned()))?;
        if row.try_get::<_, i32>(0).map_err(failed)? < OLDEST_VERSION {
            return Err(OpenError::TooOld(at(), row.try_get(1).map_err(failed)?));
        }
        let encoding: String = row.try_get(2).map_err(failed)?;
        if encoding != "UTF8" {
            return Err(OpenError::Encoding(at(), encoding));
        }
        if row.try_get(3).map_err(failed)? { Err(OpenError::ReadOnly(at())) } else { Ok(client) }
    }

    /// The hosts in the order in which they are tried: as the address says, or from any one on.
    fn order(&self) -> impl Iterator<Item = &Place> {
        // The standard library's only source of chance: each such state is seeded anew.
        let chance = if self.address.is_balanced() { RandomState::new().build_hasher().finish() } else { 0 };
        let first = usize::try_from(chance % self.places.len().max(1) as u64).unwrap_or(0);
        self.places[first..].iter().chain(&self.places[..first])
    }
}

/// Drives a connection until it ends: when its client is dropped, or because of an error, of which whoever is at it
/// hears too.
async fn attend<T: TlsStream + Unpin>(mut connection: Connection<Socket, T>, heard: Option<mpsc::Sender<String>>) {
    loop {
        match poll_fn(|context| connection.poll_message(context)).await {
            Some(Ok(AsyncMessage::Notice(notice))) => tracing::debug!(notice = notice.message(), "the database says"),
            Some(Ok(AsyncMessage::Notification(notification))) => {
                if let Some(heard) = &heard {
                    let _ = heard.try_send(notification.payload().to_owned());
                }
            }
            Some(Ok(_)) => {}
            Some(Err(error)) => return tracing::debug!(error = describe(&error), "a connection to the database ended"),
            None => return,
        }
    }
}

#[cfg(test)]
#[path = "open_tests.rs"]
pub(crate) mod tests;
