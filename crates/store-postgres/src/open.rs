//! Connecting to a database, the reasons to refuse one, and the settings with which PostgreSQL may lose confirmed commits, which are
//! reported and not refused. The schema is checked in `migrate.rs`.

use std::future::poll_fn;
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

use crate::address::{Address, HostConfig};
use crate::failure::describe;
use crate::session::{Schema, Session};
use crate::{random_u64, tls};

/// The oldest PostgreSQL that is tested, as `server_version_num`.
const OLDEST_VERSION: i32 = 130_000;
/// PostgreSQL truncates longer names.
const NAME_BYTES: usize = 63;

/// Why a database was not opened. Each message is one line that says what to do. The first field is the host or schema.
#[derive(Debug, Error)]
pub enum OpenError {
    #[error("cannot reach PostgreSQL at {0}: {1}; check the address, and that the server runs and lets this host in")]
    Unreachable(String, String),
    /// The login was refused.
    #[error("PostgreSQL at {0} refuses the login: {1}; check user and password (URL or PGPASSWORD) and pg_hba.conf")]
    Refused(String, String),
    #[error("PostgreSQL at {0}: {1}; create it, or name another database in the URL")]
    NoDatabase(String, String),
    /// The connection limit is reached.
    #[error("PostgreSQL at {0} has reached its connection limit: {1}; raise max_connections or stop other clients")]
    Full(String, String),
    /// TLS failed, or the server does not support it.
    #[error(
        "no TLS with PostgreSQL at {0}: {1}; check sslmode and sslrootcert in the URL, and the server's certificate"
    )]
    Tls(String, String),
    /// A certificate or key that the URL names cannot be used.
    #[error("cannot use {0}={1} of the PostgreSQL URL: {2}; name a readable PEM file, its key without a password")]
    Certificate(&'static str, PathBuf, String),
    #[error("PostgreSQL at {0} is version {1}; use PostgreSQL 13 or newer")]
    TooOld(String, String),
    #[error("PostgreSQL at {0} is a standby or read-only; name the primary in the URL")]
    ReadOnly(String),
    #[error("the database at {0} has the encoding {1}; create it with ENCODING 'UTF8' TEMPLATE template0")]
    Encoding(String, String),
    #[error("{0:?} cannot be the name of a schema; choose one of 1 to {NAME_BYTES} bytes that does not begin with pg_")]
    SchemaName(String),
    #[error("there is no schema {0:?} of ours at {1}; check its name")]
    Missing(String, String),
    /// The schema belongs to another program.
    #[error("schema {0:?} holds tables of another program; choose another schema")]
    Foreign(String),
    /// The schema was written by a newer version.
    #[error("schema {0:?} was written by a newer taskqueue ({1}); upgrade this program")]
    Newer(String, String),
    /// The schema's migrations differ from those of this program.
    #[error("schema {0:?} is not as this program knows it ({1}); use the taskqueue that wrote it")]
    Changed(String, String),
    /// The role lacks a privilege.
    #[error(
        "no right to set up schema {0:?}: {1}; let its owner start taskqueue once, or CREATE SCHEMA ... AUTHORIZATION this role"
    )]
    NoRight(String, String),
    /// Another server has been migrating the schema for too long.
    #[error(
        "another server has been migrating schema {0:?} for too long; wait for it or end its session, then start again"
    )]
    Migrating(String),
    #[error("PostgreSQL at {0} failed: {1}; its log says more")]
    Failed(String, String),
}

impl OpenError {
    /// Whether the same may succeed later without anybody changing anything: the database starts, stops or is busy. A host without a
    /// name too: that of a container is known when it has started.
    pub fn may_pass(&self) -> bool {
        matches!(self, Self::Unreachable(..) | Self::Full(..))
    }
}

/// Its text is what the log may know.
#[derive(Debug, Error)]
pub(crate) enum ConnectError {
    #[error("no answer within {0:?}")]
    Timeout(Duration),
    #[error("{}", describe(.0))]
    Driver(#[from] Error),
}

impl ConnectError {
    /// What the caller may know. The rest is logged.
    pub(crate) fn to_store_error(&self, doing: &'static str) -> StoreError {
        let error = self.to_string();
        if let Self::Driver(driver) = self
            && driver.code() == Some(&SqlState::TOO_MANY_CONNECTIONS)
        {
            tracing::warn!(doing, error, "the database server has reached its connection limit");
            return StoreError::Busy;
        }
        tracing::error!(doing, error, "cannot connect to the database");
        StoreError::Unavailable
    }

    /// Whether the error is the answer of a server, which says more than a timeout of another host.
    fn is_from_server(&self) -> bool {
        matches!(self, Self::Driver(error) if error.as_db_error().is_some())
    }

    fn into_open_error(self, at: String) -> OpenError {
        let text = self.to_string();
        let Self::Driver(error) = self else { return OpenError::Unreachable(at, text) };
        match error.code().map(SqlState::code) {
            // The class "invalid authorization", and no right to connect to the database.
            Some(code) if code.starts_with("28") || code == "42501" => OpenError::Refused(at, text),
            Some("3D000") => OpenError::NoDatabase(at, text),
            Some("53300") => OpenError::Full(at, text),
            // The server is starting, stopping or recovering, or the connection was lost.
            Some(code) if code.starts_with("57P") || code.starts_with("08") => OpenError::Unreachable(at, text),
            Some(_) => OpenError::Failed(at, text),
            // The driver does not expose the kind of an error, except in its text.
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
    hosts: Vec<HostConfig>,
    tls: MakeRustlsConnect,
    schema: Schema,
    /// Do not prepare statements.
    unnamed: Arc<AtomicBool>,
}

impl Connector {
    /// Reads the certificates that the address names. Does not connect.
    pub(crate) fn new(address: Address, schema: Schema) -> Result<Self, OpenError> {
        let name = schema.name();
        if name.is_empty() || name.len() > NAME_BYTES || name.contains('\0') || name.starts_with("pg_") {
            return Err(OpenError::SchemaName(name.to_owned()));
        }
        let (tls, hosts) = (tls::connector(&address)?, address.host_configs());
        Ok(Self { address, hosts, tls, schema, unnamed: Arc::default() })
    }

    pub(crate) fn schema(&self) -> &Schema {
        &self.schema
    }

    /// The hosts, for messages.
    pub(crate) fn hosts(&self) -> String {
        self.address.hosts()
    }

    /// Connects to the first host that accepts, within the timeout of the address. Each host gets an equal share of the
    /// time that is left, so that a host that does not answer does not use up all of it. Notifications of the connection are
    /// dropped where nobody takes them or `notifications` is full.
    pub(crate) async fn client(&self, notifications: Option<mpsc::Sender<String>>) -> Result<Client, ConnectError> {
        let limit = self.address.connect_timeout();
        let end = Instant::now() + limit;
        let mut failure = ConnectError::Timeout(limit);
        for (tried, host) in self.connect_order().enumerate() {
            let left = u32::try_from(self.hosts.len() - tried).unwrap_or(u32::MAX);
            let share = end.saturating_duration_since(Instant::now()) / left;
            let error = match timeout(share, host.config.connect(self.tls.clone())).await {
                Ok(Ok((client, connection))) => {
                    tokio::spawn(drive(connection, notifications));
                    return Ok(client);
                }
                Ok(Err(error)) => ConnectError::Driver(error),
                Err(_) => ConnectError::Timeout(share),
            };
            tracing::debug!(place = host.name, error = error.to_string(), "cannot connect to this host");
            if !failure.is_from_server() || error.is_from_server() {
                failure = error;
            }
        }
        Err(failure)
    }

    /// A connection that prepares nothing.
    pub(crate) async fn session(&self) -> Result<Session, ConnectError> {
        Ok(Session::new(self.client(None).await?, self.schema.clone()))
    }

    /// A connection for a writer, and whether the database can name its transactions. A pooler may let a client wait for its first
    /// answer.
    pub(crate) async fn writing_session(&self) -> Result<(Session, bool), ConnectError> {
        let session = self.session().await?.preparing(Arc::clone(&self.unnamed));
        let limit = self.address.connect_timeout();
        let asked = async {
            session.let_client_be_watched().await;
            session.can_name_transactions().await
        };
        let settles = timeout(limit, asked).await.map_err(|_| ConnectError::Timeout(limit))?;
        Ok((session, settles))
    }

    /// Asks the database to cancel the statement of a connection, with a timeout. The result is not known.
    pub(crate) fn cancel_statement(&self, token: CancelToken) -> impl Future<Output = ()> + Send + 'static {
        let (limit, tls) = (self.address.connect_timeout(), self.tls.clone());
        async move {
            if !matches!(timeout(limit, token.cancel_query(tls)).await, Ok(Ok(()))) {
                tracing::debug!("a statement could not be cancelled");
            }
        }
    }

    /// The first connection. Also checks version, encoding and that the database accepts writes.
    pub(crate) async fn open(&self) -> Result<Client, OpenError> {
        let (client, is_read_only) = self.open_for_reading().await?;
        if is_read_only { Err(OpenError::ReadOnly(self.hosts())) } else { Ok(client) }
    }

    /// The same without asking for writes. Returns whether the database accepts none.
    pub(crate) async fn open_for_reading(&self) -> Result<(Client, bool), OpenError> {
        let at = || self.hosts();
        let client = self.client(None).await.map_err(|error| error.into_open_error(at()))?;
        let failed = |error: Error| ConnectError::Driver(error).into_open_error(at());
        let query = "SELECT current_setting('server_version_num')::int4, current_setting('server_version'),
            current_setting('server_encoding'), current_setting('transaction_read_only')::bool";
        let row = client.query_typed(query, &[]).await.map_err(failed)?.into_iter().next();
        let row = row.ok_or_else(|| OpenError::Failed(at(), "it does not report its version".to_owned()))?;
        if row.try_get::<_, i32>(0).map_err(failed)? < OLDEST_VERSION {
            return Err(OpenError::TooOld(at(), row.try_get(1).map_err(failed)?));
        }
        let encoding: String = row.try_get(2).map_err(failed)?;
        if encoding != "UTF8" {
            return Err(OpenError::Encoding(at(), encoding));
        }
        Ok((client, row.try_get(3).map_err(failed)?))
    }

    /// The hosts in the order of the address, or beginning at a random one.
    fn connect_order(&self) -> impl Iterator<Item = &HostConfig> {
        let random = if self.address.is_balanced() { random_u64() } else { 0 };
        let first = usize::try_from(random % self.hosts.len().max(1) as u64).unwrap_or(0);
        self.hosts[first..].iter().chain(&self.hosts[..first])
    }
}

/// Drives a connection until its client is dropped or it fails. The client gets the error too.
async fn drive<T: TlsStream + Unpin>(
    mut connection: Connection<Socket, T>,
    notifications: Option<mpsc::Sender<String>>,
) {
    loop {
        match poll_fn(|context| connection.poll_message(context)).await {
            Some(Ok(AsyncMessage::Notice(notice))) => {
                tracing::debug!(notice = notice.message(), "notice of the database")
            }
            Some(Ok(AsyncMessage::Notification(notification))) => {
                if let Some(notifications) = &notifications {
                    let _ = notifications.try_send(notification.payload().to_owned());
                }
            }
            Some(Ok(_)) => {}
            Some(Err(error)) => return tracing::debug!(error = describe(&error), "a connection to the database ended"),
            None => return,
        }
    }
}

/// Setting, weak value, and its risk.
const WEAK: &[(&str, &str, &str)] = &[
    ("fsync", "off", "the whole database can be lost or damaged when its machine crashes"),
    ("full_page_writes", "off", "the database can be damaged when its machine crashes in the middle of a write"),
    ("synchronous_commit", "off", "the latest acknowledged writes are lost when the database server crashes"),
];

/// The weak settings of this connection, each with its risk.
pub(crate) async fn weaknesses(client: &Client) -> Result<Vec<String>, Error> {
    let mut found = Vec::new();
    for (name, weak, risk) in WEAK {
        let rows = client.query_typed(&format!("SELECT current_setting('{name}')"), &[]).await?;
        let value: Option<String> = rows.first().map(|row| row.try_get(0)).transpose()?;
        if value.is_some_and(|value| value == *weak) {
            found.push(format!("{name}={weak}: {risk}"));
        }
    }
    Ok(found)
}

#[cfg(test)]
#[path = "open_tests.rs"]
pub(crate) mod tests;
