//! Beginning a transaction: one round trip that says `BEGIN`, reads the clock, takes a block of numbers, holds the queues
//! and tasks that the batch names, and picks tasks for its claims.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use futures_util::future::{FutureExt, LocalBoxFuture, join, join_all};
use taskqueue_core::ids::{QueueName, Route, RunId, TaskId, WorkerId};
use taskqueue_store::StoreError;
use taskqueue_store::command::Command;
use taskqueue_store::transaction::{QueueKey, RunUse};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Error, Row};

use crate::clock::ClockRow;
use crate::rows;
use crate::session::{Session, Sql};
use crate::statements as sql;
use crate::workspace::{Found, Workspace};

const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED";

/// For commands that look at every task of a queue.
const LONGER: &str = "SET LOCAL statement_timeout = '25s'";

/// For how long nothing new begins in a queue that somebody needs alone: longer than it waits for what is under way.
const HELD_MICROS: i64 = 6_000_000;

/// What a batch names.
#[derive(Default)]
pub(crate) struct Named {
    queues: BTreeSet<QueueName>,
    /// To be held.
    held: BTreeSet<(QueueName, TaskId)>,
    /// To be loaded with their heavy part.
    whole: BTreeSet<(QueueName, TaskId)>,
    runs: BTreeSet<RunId>,
    /// How many tasks the claims of a route want.
    wanted: BTreeMap<(QueueName, Route), i64>,
    observations: BTreeSet<(QueueName, WorkerId)>,
}

impl Named {
    /// What these commands name.
    pub(crate) fn by<'a>(commands: impl Iterator<Item = &'a Command>) -> Self {
        let mut named = Self::default();
        commands.for_each(|command| named.add(command));
        named
    }

    fn add(&mut self, command: &Command) {
        match command {
            Command::CreateQueue(queue) => drop(self.queues.insert(queue.clone())),
            Command::CreateTask { queue, id, .. } => {
                self.queues.insert(queue.clone());
                self.whole.insert((queue.clone(), *id));
            }
            Command::UpdateTask { queue, id, .. } | Command::Act { queue, id, .. } => {
                self.queues.insert(queue.clone());
                self.held.insert((queue.clone(), *id));
                self.whole.insert((queue.clone(), *id));
            }
            Command::ReportRun { queue, id, .. } => {
                self.queues.insert(queue.clone());
                self.held.insert((queue.clone(), *id));
            }
            Command::Claim { queue, route, run_id } => {
                self.queues.insert(queue.clone());
                self.runs.insert(*run_id);
                *self.wanted.entry((queue.clone(), route.clone())).or_default() += 1;
            }
            Command::ReportWorker { queue, id, .. } | Command::WithdrawWorker { queue, id } => {
                self.queues.insert(queue.clone());
                self.observations.insert((queue.clone(), *id));
            }
            // These run alone and load as they go.
            Command::DeleteQueue { .. } | Command::UpdateTasks { .. } | Command::Scan => {}
        }
    }
}

/// What a transaction begins with.
pub(crate) struct Begun {
    /// What the database tells of the time.
    pub(crate) clock: ClockRow,
    /// The first of a block of numbers.
    pub(crate) numbers: i64,
    pub(crate) workspace: Workspace,
    /// Whether beginning has changed anything that must be kept whatever comes of the command.
    pub(crate) wrote: bool,
}

/// Begins a transaction with a writer's settings. Every statement of it is a handful of lookups by key, and none waits long
/// for anybody. The planner is told so, because a guess from the statistics of a table that was empty a minute ago can be a
/// scan of a million rows. Planning anew for each batch, which the planner prefers for arrays whose length it does not know,
/// took more time than all of the batch's work, and the more the more dead entries lay at the head of an index.
///
/// Settings of the transaction and not of the session: a pooler may hand the next one to another connection.
pub(crate) async fn begin_to_write(session: &Session) -> Result<(), Error> {
    let (begun, set) = join(session.begin(BEGIN), session.query(&sql::SETTINGS, &[])).await;
    begun.and(set.map(drop))
}

/// Begins a transaction and loads what is named.
pub(crate) async fn begin(session: &Session, named: &Named) -> Result<Result<Begun, StoreError>, Error> {
    let queues: Vec<&str> = named.queues.iter().map(QueueName::as_str).collect();
    let held = pairs(&named.held, TaskId::as_str);
    let whole = pairs(&named.whole, TaskId::as_str);
    let observations = pairs(&named.observations, WorkerId::as_str);
    let runs: Vec<&str> = named.runs.iter().map(RunId::as_str).collect();
    let routes: Vec<&str> = named.wanted.keys().map(|(_, route)| route.as_str()).collect();
    let route_queues: Vec<&str> = named.wanted.keys().map(|(queue, _)| queue.as_str()).collect();
    let counts: Vec<i64> = named.wanted.values().copied().collect();

    // All are sent before the first answer is awaited, in this order.
    let asked = vec![
        async { begin_to_write(session).await.map(|()| Vec::new()) }.boxed_local(),
        ask(session, true, &sql::LOAD_CLOCK, vec![]),
        ask(session, !queues.is_empty(), &sql::LOCK_QUEUES, vec![&queues]),
        ask(session, !held.0.is_empty(), &sql::LOCK_TASKS, vec![&held.0, &held.1]),
        ask(session, !counts.is_empty(), &sql::PICK_TASKS, vec![&route_queues, &routes, &counts]),
        // Behind everything that holds tasks: what is read of a held task is then what it is.
        ask(session, !whole.0.is_empty(), &sql::LOAD_TASKS, vec![&whole.0, &whole.1]),
        ask(session, !runs.is_empty(), &sql::FIND_RUNS, vec![&runs]),
        ask(session, !observations.0.is_empty(), &sql::LOAD_OBSERVATIONS, vec![&observations.0, &observations.1]),
    ];
    let mut answers = join_all(asked).await.into_iter().collect::<Result<Vec<_>, Error>>()?.into_iter().skip(1);
    let mut next = || answers.next().unwrap_or_default();
    let (clock, queues, held, picks, whole, runs, observations) =
        (next(), next(), next(), next(), next(), next(), next());
    Ok(Loaded { queues, held, whole, runs, picks, observations }.into_begun(&clock, named))
}

/// The rows of a statement, or none where nothing is needed.
fn ask<'a>(
    session: &'a Session,
    needed: bool,
    sql: &'static Sql,
    params: Vec<&'a (dyn ToSql + Sync)>,
) -> LocalBoxFuture<'a, Result<Vec<Row>, Error>> {
    async move { if needed { session.query(sql, &params).await } else { Ok(Vec::new()) } }.boxed_local()
}

/// Begins a transaction for a command that runs alone, and holds its queue.
pub(crate) async fn begin_alone(session: &Session, command: &Command) -> Result<Result<Begun, StoreError>, Error> {
    let queue = match command {
        Command::DeleteQueue { queue, .. } => queue,
        Command::UpdateTasks(bulk) => &bulk.queue,
        _ => {
            begin_for_long(session).await?;
            // Only one scan at a time, over all servers.
            let clock = session.query(&sql::LOCK_CLOCK, &[]).await?;
            return Ok(Loaded::default().into_begun(&clock, &Named::default()));
        }
    };
    let (name, names) = (queue.as_str(), vec![queue.as_str()]);
    hold(session, name).await?;
    begin_for_long(session).await?;
    let queues = session.query(&sql::LOCK_QUEUE_ALONE, &[&names]).await?;
    session.execute(&sql::FREE_QUEUE, &[&name]).await?;
    let clock = session.query(&sql::LOAD_CLOCK, &[]).await?;
    let mut begun = Loaded { queues, ..Loaded::default() }.into_begun(&clock, &Named::default());
    if let Ok(begun) = &mut begun {
        begun.workspace.queues.entry(queue.clone()).or_insert(Found::Missing);
        begun.wrote = true;
    }
    Ok(begun)
}

async fn begin_for_long(session: &Session) -> Result<(), Error> {
    let (begun, set) = join(begin_to_write(session), session.execute_text(LONGER)).await;
    begun.and(set)
}

/// Announces that a queue is needed alone, in a transaction of its own so that the others see it.
async fn hold(session: &Session, name: &str) -> Result<(), Error> {
    let (begun, held) = join(begin_to_write(session), session.execute(&sql::HOLD_QUEUE, &[&name, &HELD_MICROS])).await;
    begun.and(held)?;
    session.execute_text("COMMIT").await
}

/// Lets everybody into a queue again that was announced to be needed alone.
pub(crate) async fn free(session: &Session, name: &str) -> Result<(), Error> {
    let (begun, freed) = join(begin_to_write(session), session.execute(&sql::FREE_QUEUE, &[&name])).await;
    begun.and(freed)?;
    session.execute_text("COMMIT").await
}

fn pairs<'a, I>(named: &'a BTreeSet<(QueueName, I)>, text: impl Fn(&'a I) -> &'a str) -> (Vec<&'a str>, Vec<&'a str>) {
    named.iter().map(|(queue, id)| (queue.as_str(), text(id))).unzip()
}

/// The rows that came.
#[derive(Default)]
struct Loaded {
    queues: Vec<Row>,
    held: Vec<Row>,
    whole: Vec<Row>,
    runs: Vec<Row>,
    picks: Vec<Row>,
    observations: Vec<Row>,
}

impl Loaded {
    fn into_begun(self, clock: &[Row], named: &Named) -> Result<Begun, StoreError> {
        let clock = clock.first().ok_or(StoreError::Unavailable)?;
        Ok(Begun {
            clock: rows::clock(clock)?,
            numbers: rows::numbers(clock)?,
            workspace: self.into_workspace(named)?,
            wrote: false,
        })
    }

    fn into_workspace(self, named: &Named) -> Result<Workspace, StoreError> {
        let mut workspace = Workspace::default();
        for row in &self.queues {
            let (key, name) = rows::named_queue(row)?;
            workspace.queues.insert(name, Found::Here(key));
        }
        for row in &self.held {
            workspace.add_held(rows::key(row)?, rows::queue_key(row)?, rows::head(row)?);
        }
        // Before what is only read: what was read of a task that is held now may be older.
        self.take_claims(named, &mut workspace)?;
        let ids = |pairs: &BTreeSet<(QueueName, TaskId)>, queues: &Workspace| -> Vec<(QueueKey, TaskId)> {
            let key = |(queue, id): &(QueueName, TaskId)| Some((queues.held_queue(queue)?, *id));
            pairs.iter().filter_map(key).collect()
        };
        let to_hold: BTreeSet<(QueueKey, TaskId)> = ids(&named.held, &workspace).into_iter().collect();
        for row in &self.whole {
            let place = (rows::queue_key(row)?, rows::id(row)?);
            if to_hold.contains(&place) && !workspace.tasks.contains_key(&rows::key(row)?) {
                workspace.ids.insert(place, Found::HeldElsewhere);
            } else {
                let key = workspace.add_whole(row)?;
                workspace.ids.insert(place, Found::Here(key));
            }
        }
        for place in ids(&named.whole, &workspace) {
            workspace.ids.entry(place).or_insert(Found::Missing);
        }
        for row in &self.observations {
            let queue = rows::found_queue(row)?;
            let held = workspace.queues.iter().find(|(_, found)| **found == Found::Here(queue));
            // Of a queue that is not to be held nothing is looked at.
            let Some(name) = held.map(|(name, _)| name.clone()) else { continue };
            let observation = rows::observation(row, &name)?;
            workspace.observations.insert((queue, observation.id), Some(observation));
        }
        for (queue, id) in &named.observations {
            if let Some(key) = workspace.held_queue(queue) {
                workspace.observations.entry((key, *id)).or_insert(None);
            }
        }
        Ok(workspace)
    }

    fn take_claims(&self, named: &Named, workspace: &mut Workspace) -> Result<(), StoreError> {
        workspace.runs.extend(named.runs.iter().map(|run_id| (*run_id, RunUse::New)));
        self.runs.iter().try_for_each(|row| workspace.add_run(row))?;
        let routes: Vec<&Route> = named.wanted.keys().map(|(_, route)| route).collect();
        let mut picks = Vec::with_capacity(self.picks.len());
        for row in &self.picks {
            let (key, queue, head) = (rows::key(row)?, rows::queue_key(row)?, rows::head(row)?);
            picks.push((rows::route_number(row)?, Reverse(head.priority), head.lifecycle.pending_seq, queue, key));
            workspace.add_held(key, queue, head);
            if rows::is_whole(row)? {
                workspace.add_whole(row)?;
            }
        }
        // In the claim's order within each route; the statement does not promise one.
        picks.sort_unstable();
        for (route_number, _, _, queue, key) in picks {
            let route = routes.get(route_number.wrapping_sub(1)).ok_or(StoreError::Unavailable)?;
            workspace.picks.entry((queue, (*route).clone())).or_default().push_back(key);
        }
        Ok(())
    }
}
