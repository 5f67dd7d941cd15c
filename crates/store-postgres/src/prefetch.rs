//! Begins a transaction in one round trip: `BEGIN`, read the clock, take a block of numbers, lock the queues and tasks that
//! the batch names, and pick tasks for its claims.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use futures_util::future::{FutureExt, LocalBoxFuture, join, join_all};
use taskqueue_core::ids::{QueueName, Route, RunId, TaskId, WorkerId};
use taskqueue_store::StoreError;
use taskqueue_store::command::{Claim, ClaimTasks, Heartbeat, RunAction, RunItem};
use taskqueue_store::transaction::{QueueKey, RunUse};
use taskqueue_store::write_request::WriteRequest;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Error, Row};

use crate::clock::ClockRow;
use crate::output_rows::OutputEntry;
use crate::rows;
use crate::session::{Session, Sql};
use crate::statements as sql;
use crate::transaction_rows::{Found, TransactionRows};

const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED";

/// For commands that visit every task of a queue.
const LONG_TIMEOUT: &str = "SET LOCAL statement_timeout = '25s'";

/// For how long no other transaction may begin in a queue that a long command needs exclusively: longer than the command
/// waits for the lock.
const HELD_MICROS: i64 = 6_000_000;

/// The keys that the commands of a batch name.
#[derive(Default)]
pub(crate) struct BatchKeys {
    queues: BTreeSet<QueueName>,
    /// To be locked.
    held: BTreeSet<(QueueName, TaskId)>,
    /// To be loaded with their heavy part.
    whole: BTreeSet<(QueueName, TaskId)>,
    /// To be loaded with their identities.
    identified: BTreeSet<(QueueName, TaskId)>,
    /// The size of their results is needed.
    sized: BTreeSet<(QueueName, TaskId)>,
    /// To be loaded with what is kept of their output.
    printed: BTreeSet<(QueueName, TaskId)>,
    runs: BTreeSet<RunId>,
    /// How many tasks the claims of a route want.
    wanted: BTreeMap<(QueueName, Route), i64>,
    observations: BTreeSet<(QueueName, WorkerId)>,
}

impl BatchKeys {
    pub(crate) fn by<'a>(requests: impl Iterator<Item = &'a WriteRequest>) -> Self {
        let mut keys = Self::default();
        requests.for_each(|request| keys.add(request));
        keys
    }

    fn add(&mut self, request: &WriteRequest) {
        match request {
            WriteRequest::CreateQueue(create) => drop(self.queues.insert(create.command.queue.clone())),
            WriteRequest::CreateTask(create) => {
                let task = self.task(&create.command.queue, create.command.id);
                self.whole.insert(task);
            }
            WriteRequest::CreateTasks(create) => {
                self.queues.insert(create.command.queue.clone());
                for (id, _) in &create.command.tasks {
                    self.identified.insert((create.command.queue.clone(), *id));
                }
            }
            WriteRequest::UpdateTask(update) => self.add_changed(&update.command.queue, update.command.id),
            WriteRequest::ActOnTask(act) => self.add_changed(&act.command.queue, act.command.id),
            // Its tasks are locked when their turn comes.
            WriteRequest::ActOnFound(found) => drop(self.queues.insert(found.command.act().queue.clone())),
            WriteRequest::DeleteTask(delete) => self.add_changed(&delete.command.queue, delete.command.id),
            WriteRequest::Heartbeat(heartbeat) => {
                let Heartbeat { queue, id, progress, .. } = &heartbeat.command;
                self.add_held(queue, *id, progress.is_some());
            }
            WriteRequest::ReportProgress(report) => self.add_held(&report.command.queue, report.command.id, true),
            WriteRequest::AddOutput(output) => {
                self.add_held(&output.command.queue, output.command.id, false);
                self.printed.insert((output.command.queue.clone(), output.command.id));
            }
            WriteRequest::ReportRun(report) => self.add_held(&report.command.queue, report.command.id, false),
            WriteRequest::Claim(claim) => {
                let Claim { queue, route, run_id, .. } = &claim.command;
                self.queues.insert(queue.clone());
                self.runs.insert(*run_id);
                *self.wanted.entry((queue.clone(), route.clone())).or_default() += 1;
            }
            WriteRequest::ClaimTasks(claim) => {
                let ClaimTasks { queue, route, run_ids, .. } = &claim.command;
                self.queues.insert(queue.clone());
                self.runs.extend(run_ids);
                *self.wanted.entry((queue.clone(), route.clone())).or_default() += run_ids.len() as i64;
            }
            WriteRequest::ReportRuns(reports) => {
                self.queues.insert(reports.command.queue.clone());
                for RunItem { id, action, .. } in &reports.command.reports {
                    let has_progress =
                        matches!(action, RunAction::Progress { .. } | RunAction::Heartbeat { progress: Some(_) });
                    self.add_held(&reports.command.queue, *id, has_progress);
                }
            }
            WriteRequest::ReportWorker(report) => self.add_observation(&report.command.queue, report.command.id),
            WriteRequest::ReportTelemetry(report) => self.add_observation(&report.command.queue, report.command.id),
            WriteRequest::WithdrawWorker(withdraw) => {
                self.add_observation(&withdraw.command.queue, withdraw.command.id)
            }
            // These have a transaction of their own and load as they go, or need nothing.
            WriteRequest::DeleteQueue(_)
            | WriteRequest::UpdateTasks(_)
            | WriteRequest::SaveActivity(_)
            | WriteRequest::Scan(_) => {}
        }
    }

    fn task(&mut self, queue: &QueueName, id: TaskId) -> (QueueName, TaskId) {
        self.queues.insert(queue.clone());
        (queue.clone(), id)
    }

    fn add_held(&mut self, queue: &QueueName, id: TaskId, has_progress: bool) {
        let task = self.task(queue, id);
        if has_progress {
            self.sized.insert(task.clone());
        }
        self.held.insert(task);
    }

    fn add_changed(&mut self, queue: &QueueName, id: TaskId) {
        let task = self.task(queue, id);
        self.held.insert(task.clone());
        self.whole.insert(task);
    }

    fn add_observation(&mut self, queue: &QueueName, id: WorkerId) {
        self.queues.insert(queue.clone());
        self.observations.insert((queue.clone(), id));
    }
}

/// What a transaction begins with.
pub(crate) struct Begun {
    pub(crate) clock: ClockRow,
    /// The first of a block of numbers.
    pub(crate) numbers: i64,
    pub(crate) rows: TransactionRows,
    /// Whether beginning has changed anything that must be committed whatever the command does.
    pub(crate) wrote: bool,
}

/// Begins a transaction with a writer's settings. Every statement in it is a few lookups by key, and none waits long. The
/// settings force such plans: with the statistics of a table that was empty a minute ago, the planner may choose a scan of a
/// million rows. They also keep generic plans: for arrays of unknown length the planner prefers to plan each batch again,
/// which took longer than the work itself, and even longer with dead entries at the head of an index.
///
/// The settings belong to the transaction, not to the session: a pooler may give the next one another connection.
pub(crate) async fn begin_to_write(session: &Session) -> Result<(), Error> {
    let (begun, set) = join(session.begin(BEGIN), session.query(&sql::SETTINGS, &[])).await;
    begun.and(set.map(drop))
}

/// Begins a transaction and loads what the batch names.
pub(crate) async fn begin(session: &Session, keys: &BatchKeys) -> Result<Result<Begun, StoreError>, Error> {
    let queues: Vec<&str> = keys.queues.iter().map(QueueName::as_str).collect();
    let held = pairs(&keys.held, TaskId::as_str);
    let whole = pairs(&keys.whole, TaskId::as_str);
    let identified = pairs(&keys.identified, TaskId::as_str);
    let sized = pairs(&keys.sized, TaskId::as_str);
    let printed = pairs(&keys.printed, TaskId::as_str);
    let observations = pairs(&keys.observations, WorkerId::as_str);
    let runs: Vec<&str> = keys.runs.iter().map(RunId::as_str).collect();
    let routes: Vec<&str> = keys.wanted.keys().map(|(_, route)| route.as_str()).collect();
    let route_queues: Vec<&str> = keys.wanted.keys().map(|(queue, _)| queue.as_str()).collect();
    let counts: Vec<i64> = keys.wanted.values().copied().collect();

    // All are sent before the first answer is awaited, in this order.
    let queries = vec![
        async { begin_to_write(session).await.map(|()| Vec::new()) }.boxed_local(),
        query_if(session, true, &sql::LOAD_CLOCK, vec![]),
        query_if(session, !queues.is_empty(), &sql::LOCK_QUEUES, vec![&queues]),
        query_if(session, !held.0.is_empty(), &sql::LOCK_TASKS, vec![&held.0, &held.1]),
        query_if(session, !counts.is_empty(), &sql::PICK_TASKS, vec![&route_queues, &routes, &counts]),
        // After everything that locks tasks: what is read of a locked task is then current.
        query_if(session, !whole.0.is_empty(), &sql::LOAD_TASKS, vec![&whole.0, &whole.1]),
        query_if(session, !identified.0.is_empty(), &sql::LOAD_IDENTITIES, vec![&identified.0, &identified.1]),
        query_if(session, !sized.0.is_empty(), &sql::LOAD_RESULT_SIZES, vec![&sized.0, &sized.1]),
        query_if(session, !printed.0.is_empty(), &sql::LOAD_OUTPUTS, vec![&printed.0, &printed.1]),
        query_if(session, !runs.is_empty(), &sql::FIND_RUNS, vec![&runs]),
        query_if(session, !observations.0.is_empty(), &sql::LOAD_OBSERVATIONS, vec![&observations.0, &observations.1]),
    ];
    let mut answers = join_all(queries).await.into_iter().collect::<Result<Vec<_>, Error>>()?.into_iter().skip(1);
    let mut next = || answers.next().unwrap_or_default();
    let clock = next();
    // In the order of the statements.
    let rows = PrefetchedRows {
        queues: next(),
        held: next(),
        picks: next(),
        whole: next(),
        identified: next(),
        sized: next(),
        printed: next(),
        runs: next(),
        observations: next(),
    };
    Ok(rows.into_begun(&clock, keys))
}

/// The rows of a statement, or none if it is not needed.
fn query_if<'a>(
    session: &'a Session,
    needed: bool,
    sql: &'static Sql,
    params: Vec<&'a (dyn ToSql + Sync)>,
) -> LocalBoxFuture<'a, Result<Vec<Row>, Error>> {
    async move { if needed { session.query(sql, &params).await } else { Ok(Vec::new()) } }.boxed_local()
}

/// Begins a transaction for a long command, and locks its queue; or for a scan, which has none.
pub(crate) async fn begin_alone(
    session: &Session,
    queue: Option<&QueueName>,
) -> Result<Result<Begun, StoreError>, Error> {
    let Some(queue) = queue else {
        begin_for_long(session).await?;
        // Only one scan at a time, over all servers.
        let clock = session.query(&sql::LOCK_CLOCK, &[]).await?;
        return Ok(PrefetchedRows::default().into_begun(&clock, &BatchKeys::default()));
    };
    let (name, names) = (queue.as_str(), vec![queue.as_str()]);
    announce(session, name).await?;
    begin_for_long(session).await?;
    let queues = session.query(&sql::LOCK_QUEUE_ALONE, &[&names]).await?;
    session.execute(&sql::FREE_QUEUE, &[&name]).await?;
    let clock = session.query(&sql::LOAD_CLOCK, &[]).await?;
    let mut begun = PrefetchedRows { queues, ..PrefetchedRows::default() }.into_begun(&clock, &BatchKeys::default());
    if let Ok(begun) = &mut begun {
        begun.rows.queues.entry(queue.clone()).or_insert(Found::Missing);
        begun.wrote = true;
    }
    Ok(begun)
}

async fn begin_for_long(session: &Session) -> Result<(), Error> {
    let (begun, set) = join(begin_to_write(session), session.execute_text(LONG_TIMEOUT)).await;
    begun.and(set)
}

/// Announces that a queue is needed alone, in a separate transaction, so that others see it.
async fn announce(session: &Session, name: &str) -> Result<(), Error> {
    let (begun, held) = join(begin_to_write(session), session.execute(&sql::HOLD_QUEUE, &[&name, &HELD_MICROS])).await;
    begun.and(held)?;
    session.execute_text("COMMIT").await
}

/// Withdraws the announcement that a queue is needed alone.
pub(crate) async fn free(session: &Session, name: &str) -> Result<(), Error> {
    let (begun, freed) = join(begin_to_write(session), session.execute(&sql::FREE_QUEUE, &[&name])).await;
    begun.and(freed)?;
    session.execute_text("COMMIT").await
}

fn pairs<'a, I>(keys: &'a BTreeSet<(QueueName, I)>, text: impl Fn(&'a I) -> &'a str) -> (Vec<&'a str>, Vec<&'a str>) {
    keys.iter().map(|(queue, id)| (queue.as_str(), text(id))).unzip()
}

/// The rows that were loaded.
#[derive(Default)]
struct PrefetchedRows {
    queues: Vec<Row>,
    held: Vec<Row>,
    picks: Vec<Row>,
    whole: Vec<Row>,
    identified: Vec<Row>,
    sized: Vec<Row>,
    printed: Vec<Row>,
    runs: Vec<Row>,
    observations: Vec<Row>,
}

impl PrefetchedRows {
    fn into_begun(self, clock: &[Row], keys: &BatchKeys) -> Result<Begun, StoreError> {
        let clock = clock.first().ok_or(StoreError::Broken("the clock has no row"))?;
        Ok(Begun {
            clock: rows::clock(clock)?,
            numbers: rows::numbers(clock)?,
            rows: self.into_transaction_rows(keys)?,
            wrote: false,
        })
    }

    fn into_transaction_rows(self, keys: &BatchKeys) -> Result<TransactionRows, StoreError> {
        let mut loaded = TransactionRows::default();
        for row in &self.queues {
            let (key, name) = rows::named_queue(row)?;
            loaded.queues.insert(name, Found::Here(key));
        }
        for row in &self.held {
            loaded.add_held(rows::key(row)?, rows::queue_key(row)?, rows::head(row)?);
        }
        // Before rows that were only read: of a task that is locked they may be older.
        self.take_claims(keys, &mut loaded)?;
        let ids = |pairs: &BTreeSet<(QueueName, TaskId)>, queues: &TransactionRows| -> Vec<(QueueKey, TaskId)> {
            let key = |(queue, id): &(QueueName, TaskId)| Some((queues.held_queue(queue)?, *id));
            pairs.iter().filter_map(key).collect()
        };
        let to_hold: BTreeSet<(QueueKey, TaskId)> = ids(&keys.held, &loaded).into_iter().collect();
        let is_whole = self.whole.iter().map(|row| (row, true));
        for (row, is_whole) in is_whole.chain(self.identified.iter().map(|row| (row, false))) {
            let id = (rows::queue_key(row)?, rows::id(row)?);
            if to_hold.contains(&id) && !loaded.tasks.get(&rows::key(row)?).is_some_and(|entry| entry.held) {
                loaded.ids.insert(id, Found::HeldElsewhere);
            } else {
                let key = if is_whole { loaded.add_whole(row)? } else { loaded.add_identified(row)? };
                loaded.ids.insert(id, Found::Here(key));
            }
        }
        for id in ids(&keys.whole, &loaded).into_iter().chain(ids(&keys.identified, &loaded)) {
            loaded.ids.entry(id).or_insert(Found::Missing);
        }
        self.take_sizes_and_output(&mut loaded)?;
        for row in &self.observations {
            let queue = rows::found_queue(row)?;
            let held = loaded.queues.iter().find(|(_, found)| **found == Found::Here(queue));
            // Observations of a queue that is not locked are not used.
            let Some(name) = held.map(|(name, _)| name.clone()) else { continue };
            let observation = rows::observation(row, &name)?;
            loaded.observations.insert((queue, observation.id), Some(observation));
        }
        for (queue, id) in &keys.observations {
            if let Some(key) = loaded.held_queue(queue) {
                loaded.observations.entry((key, *id)).or_insert(None);
            }
        }
        Ok(loaded)
    }

    /// Of held tasks only: what was read of others may have changed since.
    fn take_sizes_and_output(&self, loaded: &mut TransactionRows) -> Result<(), StoreError> {
        for row in &self.sized {
            if let Some(entry) = loaded.tasks.get_mut(&rows::output_key(row)?).filter(|entry| entry.held) {
                entry.result_bytes = Some(rows::result_bytes(row)?);
            }
        }
        for row in &self.printed {
            let key = rows::output_key(row)?;
            if loaded.tasks.get(&key).is_some_and(|entry| entry.held) {
                loaded.outputs.insert(key, OutputEntry::loaded(rows::stored_output(row)?));
            }
        }
        Ok(())
    }

    fn take_claims(&self, keys: &BatchKeys, loaded: &mut TransactionRows) -> Result<(), StoreError> {
        loaded.runs.extend(keys.runs.iter().map(|run_id| (*run_id, RunUse::New)));
        self.runs.iter().try_for_each(|row| loaded.add_run(row))?;
        let routes: Vec<&Route> = keys.wanted.keys().map(|(_, route)| route).collect();
        let mut picks = Vec::with_capacity(self.picks.len());
        for row in &self.picks {
            let (key, queue, head) = (rows::key(row)?, rows::queue_key(row)?, rows::head(row)?);
            picks.push((rows::route_number(row)?, Reverse(head.priority), head.lifecycle.pending_seq, queue, key));
            loaded.add_held(key, queue, head);
            if rows::is_whole(row)? {
                loaded.add_whole(row)?;
            }
        }
        // In the pending order of each route; the statement does not guarantee it.
        picks.sort_unstable();
        for (route_number, _, _, queue, key) in picks {
            let route =
                routes.get(route_number.wrapping_sub(1)).ok_or(StoreError::Broken("a task was picked for no route"))?;
            loaded.picks.entry((queue, (*route).clone())).or_default().push_back(key);
        }
        Ok(())
    }
}
