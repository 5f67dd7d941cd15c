//! Running statements on one connection: prepared once per connection, or unnamed where a pooler sits in between that
//! forgets prepared statements. Which schema is meant is written into the text here; the files say `taskqueue`.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::future::try_join_all;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Error, Row, RowStream, Statement};

use crate::failure::{Cause, cause};
use crate::statements::CURRENT_TRANSACTION;

/// A value and its type in a statement.
pub(crate) type Param<'a> = (&'a (dyn ToSql + Sync), Type);

/// A statement of `sql/`.
pub(crate) struct Sql {
    /// The name of its file.
    pub(crate) name: &'static str,
    /// Its text, for the schema `taskqueue`.
    pub(crate) text: &'static str,
    /// The types of its parameters.
    pub(crate) types: &'static [Type],
}

/// The schema that the tables live in.
#[derive(Clone, Debug)]
pub(crate) struct Schema(Arc<str>);

impl Schema {
    /// A schema of this name.
    pub(crate) fn new(name: &str) -> Self {
        Self(name.into())
    }

    /// Its name.
    pub(crate) fn name(&self) -> &str {
        &self.0
    }

    /// Its name as SQL writes it.
    pub(crate) fn quoted(&self) -> String {
        format!("\"{}\"", self.0.replace('"', "\"\""))
    }

    /// A text of ours with this schema instead of `taskqueue`.
    pub(crate) fn apply(&self, text: &str) -> String {
        text.replace("taskqueue.", &format!("{}.", self.quoted()))
    }
}

/// A connection with its prepared statements.
pub(crate) struct Session {
    client: Client,
    schema: Schema,
    prepared: HashMap<&'static str, Statement>,
    /// The server process that has prepared them.
    backend: Option<i32>,
    unnamed: Arc<AtomicBool>,
}

impl Session {
    /// Prepares statements on a new connection, unless the whole process goes without (`unnamed`).
    pub(crate) async fn new(
        client: Client,
        schema: Schema,
        statements: &[&'static Sql],
        unnamed: Arc<AtomicBool>,
    ) -> Result<Self, Error> {
        let mut session = Self { client, schema, prepared: HashMap::new(), backend: None, unnamed };
        if !statements.is_empty() && !session.unnamed.load(Ordering::Relaxed) {
            // In one transaction, so that all of it happens in one process of the server.
            session.execute_text("BEGIN").await?;
            let backend = session.client.query_typed("SELECT pg_backend_pid()", &[]).await?;
            session.backend = backend.first().map(|row| row.try_get(0)).transpose()?;
            let prepare = |sql: &&'static Sql| {
                let (name, types, text) = (sql.name, sql.types, session.schema.apply(sql.text));
                let client = &session.client;
                async move { Ok::<_, Error>((name, client.prepare_typed(&text, types).await?)) }
            };
            // On a connection that a pooler gave us, an earlier client's statement may have the same name.
            match try_join_all(statements.iter().map(prepare)).await {
                Ok(prepared) => session.prepared = prepared.into_iter().collect(),
                Err(error) if cause(&error) == Cause::StatementLost => session.notice(&error),
                Err(error) => return Err(error),
            }
            session.execute_text("ROLLBACK").await?;
        }
        Ok(session)
    }

    /// The connection itself, for statements that are no files.
    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// Whether the connection has ended.
    pub(crate) fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    /// The rows of a statement.
    pub(crate) async fn query(&self, sql: &'static Sql, params: &[&(dyn ToSql + Sync)]) -> Result<Vec<Row>, Error> {
        match self.prepared.get(sql.name) {
            Some(statement) => self.client.query(statement, params).await.inspect_err(|error| self.notice(error)),
            None => self.client.query_typed(&self.schema.apply(sql.text), &typed(sql, params)).await,
        }
    }

    /// The first row of a statement, if there is one.
    pub(crate) async fn first(&self, sql: &'static Sql, params: &[&(dyn ToSql + Sync)]) -> Result<Option<Row>, Error> {
        Ok(self.query(sql, params).await?.into_iter().next())
    }

    /// How many rows a statement changed.
    pub(crate) async fn execute(&self, sql: &'static Sql, params: &[&(dyn ToSql + Sync)]) -> Result<u64, Error> {
        match self.prepared.get(sql.name) {
            Some(statement) => self.client.execute(statement, params).await.inspect_err(|error| self.notice(error)),
            None => self.client.execute_typed(&self.schema.apply(sql.text), &typed(sql, params)).await,
        }
    }

    /// The rows of a composed text, one after the other; the text says `taskqueue` as the files do.
    pub(crate) async fn stream(&self, text: &str, params: &[Param<'_>]) -> Result<RowStream, Error> {
        let params = params.iter().map(|(value, kind)| (*value, kind.clone()));
        self.client.query_typed_raw(&self.schema.apply(text), params).await
    }

    /// Says `text` without parameters; several statements may stand in it.
    pub(crate) async fn execute_text(&self, text: &str) -> Result<(), Error> {
        self.client.batch_execute(text).await
    }

    /// Whether the database can name its transactions, so that it can be asked later what became of one.
    pub(crate) async fn can_name_transactions(&self) -> bool {
        self.client.query_typed(CURRENT_TRANSACTION.text, &[]).await.is_ok()
    }

    /// Says `text`, which begins a transaction in which prepared statements are used. If a pooler has put another process
    /// of the server behind this connection, the transaction fails here, before anything else of it is done: there, the
    /// names of our statements may be those of other statements.
    pub(crate) async fn begin(&self, text: &str) -> Result<(), Error> {
        let begun = match self.backend.filter(|_| !self.prepared.is_empty()) {
            None => self.execute_text(text).await,
            Some(backend) => {
                self.execute_text(&format!("{text}; SELECT 1 / (pg_backend_pid() = {backend})::int4")).await
            }
        };
        begun.inspect_err(|error| self.notice(error))
    }

    /// A pooler that hands our statements to other connections does not keep what was prepared. From then on this
    /// process prepares nothing; the connection is to be given up.
    fn notice(&self, error: &Error) {
        if cause(error) == Cause::StatementLost && !self.unnamed.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                "a connection pooler does not keep prepared statements; going on with unnamed ones, which is slower"
            );
        }
    }
}

fn typed<'a>(sql: &Sql, params: &[&'a (dyn ToSql + Sync)]) -> Vec<Param<'a>> {
    params.iter().copied().zip(sql.types.iter().cloned()).collect()
}
