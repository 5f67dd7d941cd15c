//! Runs SQL, each call on a new connection. It runs on a thread with its own runtime, because the caller may be inside a
//! runtime, which must not block on another one.

use std::fmt;
use std::str::FromStr;
use std::thread;
use std::time::Duration;

use tokio::time::timeout;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Config, Error, NoTls, SimpleQueryMessage};

use crate::wait::TIMEOUT;

/// The application name of these connections: a server lists them for a moment after they are closed.
pub(crate) const APPLICATION: &str = "taskqueue-test-control";

/// The values of rows as text.
pub(crate) type Rows = Vec<Vec<Option<String>>>;

#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: Option<SqlState>,
    message: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.message)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        // The driver's own text leaves the server's message out.
        let message = error.as_db_error().map_or_else(|| format!("{error:?}"), ToString::to_string);
        Self { code: error.code().cloned(), message }
    }
}

/// Runs statements, for at most a minute; returns all their rows.
pub(crate) fn run(url: &str, sql: &str) -> Result<Rows, Failure> {
    run_within(TIMEOUT, url, sql)
}

pub(crate) fn run_within(limit: Duration, url: &str, sql: &str) -> Result<Rows, Failure> {
    let work = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async { timeout(limit, query(url, sql)).await })
    };
    let outcome = thread::scope(|scope| scope.spawn(work).join().expect("no panic"));
    let too_long = || Failure { code: None, message: format!("no answer within {} seconds", limit.as_secs()) };
    outcome.unwrap_or_else(|_| Err(too_long()))
}

async fn query(url: &str, sql: &str) -> Result<Rows, Failure> {
    let (client, connection) = Config::from_str(url)?.application_name(APPLICATION).connect(NoTls).await?;
    let connection = tokio::spawn(connection);
    let messages = client.simple_query(sql).await?;
    drop(client);
    // Waits for the end of the connection.
    let _ = connection.await;
    let rows = messages.iter().filter_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    });
    Ok(rows.map(|row| (0..row.len()).map(|column| row.get(column).map(str::to_owned)).collect()).collect())
}
