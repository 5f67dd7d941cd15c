//! One connection and its statements. A connection that writes prepares what it executes for the second time: it never executes most
//! of its statements. Behind a pooler that drops prepared statements it goes on without. The files in `sql/` use the schema
//! `taskqueue`; here it is replaced by the actual one.
//!
//! A session makes its plans anew. A generic plan is kept until the statistics of a table change, which autovacuum sees to
//! about once a minute. One that was made while a table was empty reads all of it, and goes on when the table has filled. So plans
//! are thrown away when a table has become twice as large.

use std::collections::HashMap;
use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, OnceLock};
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use futures_util::future::try_join;
use parking_lot::Mutex;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Error, Row, RowStream, SimpleQueryMessage, Statement};

use crate::failure::{Cause, cause, describe};
use crate::statements::CURRENT_TRANSACTION;

/// The values of the parameters of a statement.
pub(crate) type Params<'a> = &'a [&'a (dyn ToSql + Sync)];

/// A value and its type in a statement.
pub(crate) type Param<'a> = (&'a (dyn ToSql + Sync), Type);

/// A statement of `sql/`.
pub(crate) struct Sql {
    /// Its name in the file.
    pub(crate) name: &'static str,
    pub(crate) text: LazyLock<String>,
    /// The types of its parameters.
    pub(crate) types: LazyLock<Vec<Type>>,
    /// Whether connections that write prepare it.
    pub(crate) is_prepared: bool,
}

/// The schema that the tables live in.
#[derive(Clone, Debug)]
pub(crate) struct Schema(Arc<str>);

impl Schema {
    pub(crate) fn new(name: &str) -> Self {
        Self(name.into())
    }

    pub(crate) fn name(&self) -> &str {
        &self.0
    }

    /// The name as an SQL identifier.
    pub(crate) fn quoted(&self) -> String {
        format!("\"{}\"", self.0.replace('"', "\"\""))
    }

    /// The text with this schema instead of `taskqueue`.
    pub(crate) fn apply(&self, text: &str) -> String {
        text.replace("taskqueue.", &format!("{}.", self.quoted()))
    }
}

/// A connection.
pub(crate) struct Session {
    client: Client,
    schema: Schema,
    /// Of one that writes.
    prepared: Option<Prepared>,
}

/// What a connection has prepared.
struct Prepared {
    /// Those that were executed, by name.
    statements: Mutex<HashMap<&'static str, Known>>,
    /// The server process of the first transaction, in which all of them are prepared.
    backend_pid: OnceLock<String>,
    /// Shared by all sessions of the process: use no prepared statements any more.
    unnamed: Arc<AtomicBool>,
    plan_age: PlanAge,
}

enum Known {
    Executed,
    /// Perhaps several times in one pipeline.
    BeingPrepared,
    Prepared(Statement),
}

/// How a statement is sent.
enum Sent {
    Prepared(Statement),
    /// As text, and whether it is prepared for the next time.
    Text(bool),
}

impl Prepared {
    fn sent(&self, sql: &'static Sql) -> Sent {
        let mut statements = self.statements.lock();
        let (known, sent) = match statements.get(sql.name) {
            Some(Known::Prepared(statement)) => return Sent::Prepared(statement.clone()),
            Some(Known::Executed) => (Known::BeingPrepared, Sent::Text(true)),
            Some(Known::BeingPrepared) => return Sent::Text(false),
            None => (Known::Executed, Sent::Text(false)),
        };
        statements.insert(sql.name, known);
        sent
    }
}

impl Session {
    /// One that prepares nothing.
    pub(crate) fn new(client: Client, schema: Schema) -> Self {
        Self { client, schema, prepared: None }
    }

    /// One that prepares, as long as `unnamed` is not set.
    pub(crate) fn preparing(self, unnamed: Arc<AtomicBool>) -> Self {
        let (statements, backend_pid, plan_age) = (Mutex::default(), OnceLock::new(), PlanAge::default());
        Self { prepared: Some(Prepared { statements, backend_pid, unnamed, plan_age }), ..self }
    }

    /// The connection, for statements that are not in `sql/`.
    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// What it has prepared, unless a pooler drops that.
    fn prepared(&self) -> Option<&Prepared> {
        self.prepared.as_ref().filter(|prepared| !prepared.unnamed.load(Ordering::Relaxed))
    }

    /// How old its plans are; nothing if it keeps none.
    pub(crate) fn plan_age(&self) -> Option<&PlanAge> {
        self.prepared().map(|prepared| &prepared.plan_age)
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    fn sent(&self, sql: &'static Sql) -> Sent {
        self.prepared().filter(|_| sql.is_prepared).map_or(Sent::Text(false), |prepared| prepared.sent(sql))
    }

    pub(crate) async fn query(&self, sql: &'static Sql, params: Params<'_>) -> Result<Vec<Row>, Error> {
        match self.sent(sql) {
            Sent::Prepared(statement) => {
                self.client.query(&statement, params).await.inspect_err(|error| self.check_pooler(error))
            }
            Sent::Text(prepares) => {
                let (text, params) = (self.schema.apply(&sql.text), typed(sql, params));
                self.preparing_behind(prepares, sql, &text, self.client.query_typed(&text, &params)).await
            }
        }
    }

    /// Prepares a statement in the round trip in which it is executed: what is sent at once keeps its order, and one that cannot be sent
    /// fails at once, before `COMMIT` is sent behind it.
    async fn preparing_behind<T>(
        &self,
        prepares: bool,
        sql: &'static Sql,
        text: &str,
        executed: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let Some(Prepared { statements, .. }) = self.prepared.as_ref().filter(|_| prepares) else {
            return executed.await;
        };
        let prepared = self.client.prepare_typed(text, &sql.types).map(|prepared| match prepared {
            // What was executed has its own answer.
            Err(error) if cause(&error) == Cause::Lost => Ok(Known::Executed),
            prepared => prepared.map(Known::Prepared),
        });
        // Behind a pooler, a statement of an earlier client may have the same name, and the transaction fails by that.
        let both = try_join(executed, prepared).await.inspect_err(|error| self.check_pooler(error));
        let (executed, known) =
            both.map_or_else(|error| (Err(error), Known::Executed), |(rows, known)| (Ok(rows), known));
        statements.lock().insert(sql.name, known);
        executed
    }

    /// The first row of a statement, if there is one.
    pub(crate) async fn first(&self, sql: &'static Sql, params: Params<'_>) -> Result<Option<Row>, Error> {
        Ok(self.query(sql, params).await?.into_iter().next())
    }

    /// How many rows a statement changed.
    pub(crate) async fn execute(&self, sql: &'static Sql, params: Params<'_>) -> Result<u64, Error> {
        match self.sent(sql) {
            Sent::Prepared(statement) => {
                self.client.execute(&statement, params).await.inspect_err(|error| self.check_pooler(error))
            }
            Sent::Text(prepares) => {
                let (text, params) = (self.schema.apply(&sql.text), typed(sql, params));
                self.preparing_behind(prepares, sql, &text, self.client.execute_typed(&text, &params)).await
            }
        }
    }

    /// The rows of a composed text, in which the schema is `taskqueue`, one by one.
    pub(crate) async fn stream(&self, text: &str, params: &[Param<'_>]) -> Result<RowStream, Error> {
        let params = params.iter().map(|(value, kind)| (*value, kind.clone()));
        self.client.query_typed_raw(&self.schema.apply(text), params).await
    }

    /// Executes one or more statements without parameters.
    pub(crate) async fn execute_text(&self, text: &str) -> Result<(), Error> {
        self.client.batch_execute(text).await
    }

    /// Lets the database look each second whether this process is still there, also during a statement: what a killed server holds is
    /// free then, and not when its statement ends. PostgreSQL before 14 cannot do that, and on some systems no version can.
    pub(crate) async fn let_client_be_watched(&self) {
        if let Err(error) = self.execute_text("SET client_connection_check_interval = '1s'").await {
            tracing::debug!(error = describe(&error), "the database does not look whether its clients are there");
        }
    }

    /// Whether the database can name its transactions, so that it can report later whether one was committed.
    pub(crate) async fn can_name_transactions(&self) -> bool {
        self.client.query_typed(&CURRENT_TRANSACTION.text, &[]).await.is_ok()
    }

    /// Executes `text`, which begins a transaction that may use prepared statements. If a pooler has assigned another server
    /// process to this connection than in the first one, this fails before anything else runs: there, our names may belong to other
    /// statements.
    pub(crate) async fn begin(&self, text: &str) -> Result<(), Error> {
        let Some(Prepared { backend_pid, .. }) = self.prepared() else { return self.execute_text(text).await };
        if let Some(pid) = backend_pid.get() {
            let begun = self.execute_text(&format!("{text}; SELECT 1 / (pg_backend_pid() = {pid})::int4")).await;
            return begun.inspect_err(|error| self.check_pooler(error));
        }
        let answer = self.client.simple_query(&format!("{text}; SELECT pg_backend_pid()")).await?;
        let pid = answer.iter().find_map(|message| match message {
            SimpleQueryMessage::Row(row) => row.get(0),
            _ => None,
        });
        if let Some(pid) = pid {
            backend_pid.get_or_init(|| pid.to_owned());
        }
        Ok(())
    }

    /// If a pooler has dropped a prepared statement, this process prepares no more statements. The caller must discard the
    /// connection.
    fn check_pooler(&self, error: &Error) {
        let Some(Prepared { unnamed, .. }) = &self.prepared else { return };
        if cause(error) == Cause::StatementLost && !unnamed.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                "a connection pooler does not keep prepared statements; using unnamed ones, which is slower"
            );
        }
    }
}

fn typed<'a>(sql: &Sql, params: &[&'a (dyn ToSql + Sync)]) -> Vec<Param<'a>> {
    params.iter().copied().zip(sql.types.iter().cloned()).collect()
}

/// Between two looks at the sizes of tables.
const PAUSE: Duration = Duration::from_secs(1);
/// Bytes of a table that any plan is good for: some hundred tasks.
const SMALL: i64 = 65_536;

#[derive(Debug, Default)]
pub(crate) struct PlanAge(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    looked_at: Option<Instant>,
    /// Of each table, the least since the plans were made.
    sizes: Vec<i64>,
    outdated: bool,
}

impl PlanAge {
    /// Whether plans have to be thrown away. Says so once.
    pub(crate) fn take_outdated(&self) -> bool {
        mem::take(&mut self.0.lock().outdated)
    }

    /// Whether it is time to look at the sizes of tables again. Whoever is told so looks.
    pub(crate) fn look_is_due(&self, now: Instant) -> bool {
        let mut state = self.0.lock();
        let is_due = state.looked_at.is_none_or(|last| now.saturating_duration_since(last) >= PAUSE);
        if is_due {
            state.looked_at = Some(now);
        }
        is_due
    }

    /// Sizes in bytes, of the same tables each time.
    pub(crate) fn see(&self, sizes: Vec<i64>) {
        let mut state = self.0.lock();
        let grown = |(before, size): (&i64, &i64)| *size > 2 * SMALL.max(*before);
        if state.sizes.iter().zip(&sizes).any(grown) {
            state.outdated = true;
            state.sizes = sizes;
        } else if state.sizes.is_empty() {
            state.sizes = sizes;
        } else {
            // A table that shrinks was vacuumed, which makes plans anew by itself.
            let both = state.sizes.iter_mut().zip(sizes);
            both.for_each(|(before, size)| *before = size.min(*before));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl PlanAge {
        /// Looks at the beginning of the next transaction.
        pub(crate) fn look_next(&self) {
            self.0.lock().looked_at = None;
        }
    }

    #[test]
    fn plans_are_outdated_once_for_each_time_that_a_table_doubles() {
        let age = PlanAge::default();
        let mut outdated = Vec::new();
        for size in [0, SMALL, 2 * SMALL, 3 * SMALL, 6 * SMALL, 7 * SMALL, 0, SMALL, 3 * SMALL] {
            age.see(vec![9_000_000, size]);
            outdated.push(age.take_outdated());
        }
        assert_eq!(outdated, [false, false, false, true, false, true, false, false, true]);
        assert!(!age.take_outdated());
    }

    #[test]
    fn sizes_are_looked_at_once_a_second() {
        let (age, now) = (PlanAge::default(), Instant::now());
        let looks = [0, 0, 999, 1_000, 1_999, 2_000].map(|millis| age.look_is_due(now + Duration::from_millis(millis)));
        assert_eq!(looks, [true, false, false, true, false, true]);
    }
}
