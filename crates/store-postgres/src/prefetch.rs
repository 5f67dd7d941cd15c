//! Begins a transaction in one round trip: `BEGIN`, read the clock, take a block of numbers, lock the queues and tasks that
//! the batch names, and pick tasks for its claims.

mod alone;
mod batch_keys;

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use std::time::Instant;

use futures_util::future::{FutureExt, LocalBoxFuture, join_all, join4};
use taskqueue_core::ids::{QueueName, Route, RunId, TaskId, WorkerId};
use taskqueue_core::time::Timestamp;
use taskqueue_store::transaction::{QueueKey, RunUse};
use taskqueue_store::{StoreError, StoreResult};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Error, Row};

pub(crate) use self::alone::{begin_alone, begin_upkeep, free};
pub(crate) use self::batch_keys::BatchKeys;
use crate::clock::{Clock, ClockRow};
use crate::output::OutputEntry;
use crate::readers::Read;
use crate::rows;
use crate::session::{Session, Sql};
use crate::settings;
use crate::statements as sql;
use crate::transaction_rows::{Found, TransactionRows};

const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED";

const NO_CLOCK: StoreError = StoreError::Broken("the clock has no row");

/// Dependents that are loaded at the beginning. If there are more, those that are settled are loaded when they are needed.
const DEPENDENTS: i64 = 400;

/// What is expected to be there, after what the transaction before has seen. It saves most of those who use it a second round trip,
/// and all others a statement.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Expected {
    /// Tasks that wait for others.
    pub(crate) dependencies: bool,
    pub(crate) delayed: bool,
}

/// What a transaction begins with.
pub(crate) struct Begun {
    pub(crate) clock: ClockRow,
    /// What the next transaction expects, if this one has looked.
    pub(crate) expected: Option<Expected>,
    /// The first of a block of numbers.
    pub(crate) numbers: i64,
    pub(crate) rows: TransactionRows,
    /// Delayed tasks that were moved to the pending order: by a claim, or already committed by an upkeep.
    pub(crate) moved: usize,
    /// Whether beginning has changed anything that must be committed whatever the command does.
    pub(crate) wrote: bool,
    /// Whether this is an upkeep that has nothing to do, or that another server does at the moment.
    pub(crate) is_idle: bool,
}

/// Begins a transaction with a writer's settings. Every statement in it is a few lookups by key, and none waits long. The
/// settings force such plans: with the statistics of a table that was empty a minute ago, the planner may choose a scan of a
/// million rows. They also keep generic plans: for arrays of unknown length the planner prefers to plan each batch again,
/// which took longer than the work itself, and even longer with dead entries at the head of an index.
///
/// The settings belong to the transaction, not to the session: a pooler may give the next one another connection.
pub(crate) async fn begin_to_write(session: &Session) -> Result<(), Error> {
    let (discard, look) = (discard_plans(session), look_at_sizes(session));
    let (begun, discarded, set, looked) =
        join4(session.begin(BEGIN), discard, session.query(&sql::SETTINGS, &[]), look).await;
    begun.and(discarded).and(set.map(drop)).and(looked)
}

/// Makes plans anew that were made for far smaller tables.
async fn discard_plans(session: &Session) -> Result<(), Error> {
    match session.plan_age() {
        Some(age) if age.take_outdated() => session.execute_text("DISCARD PLANS").await,
        _ => Ok(()),
    }
}

async fn look_at_sizes(session: &Session) -> Result<(), Error> {
    let Some(age) = session.plan_age().filter(|age| age.look_is_due(Instant::now())) else { return Ok(()) };
    if let Some(row) = session.first(&sql::MEASURE_GROWING, &[]).await? {
        age.see(row.try_get("bytes")?);
    }
    Ok(())
}

/// Begins a transaction and loads what the batch names. `time` is that of a clock instead of the database's, for tests.
pub(crate) async fn begin(session: &Session, keys: &BatchKeys, expected: Expected, time: Option<i64>) -> Read<Begun> {
    let queues: Vec<&str> = keys.queues.iter().map(QueueName::as_str).collect();
    let held = pairs(&keys.held, TaskId::as_str);
    let whole = pairs(&keys.whole, TaskId::as_str);
    let identified = pairs(&keys.identified, TaskId::as_str);
    let sized = pairs(&keys.sized, TaskId::as_str);
    let printed = pairs(&keys.printed, TaskId::as_str);
    let dependencies = pairs(&keys.dependencies, TaskId::as_str);
    let settling = pairs(&keys.settling, TaskId::as_str);
    let observations = pairs(&keys.observations, WorkerId::as_str);
    let runs: Vec<&str> = keys.runs.iter().map(RunId::as_str).collect();
    let routes: Vec<&str> = keys.wanted.keys().map(|(_, route)| route.as_str()).collect();
    let route_queues: Vec<&str> = keys.wanted.keys().map(|(queue, _)| queue.as_str()).collect();
    let counts: Vec<i64> = keys.wanted.values().copied().collect();
    let (claims, settles, most) = (!counts.is_empty(), !settling.0.is_empty(), DEPENDENTS + 1);
    let move_due: Params<'_> = vec![&route_queues, &time];
    let pick: Params<'_> = vec![&route_queues, &routes, &counts, &false, &time];
    let dependents: Params<'_> = vec![&settling.0, &settling.1, &most];

    let mut first = Pipeline::beginning(session);
    first.query_if(!queues.is_empty(), &sql::LOCK_QUEUES, vec![&queues]);
    first.query_if(!held.0.is_empty(), &sql::LOCK_TASKS, vec![&held.0, &held.1]);
    first.query_if(claims && expected.delayed, &sql::MOVE_DUE, move_due.clone());
    first.query_if(claims, &sql::PICK_TASKS, pick.clone());
    first.query_if(!dependencies.0.is_empty(), &sql::LOCK_NAMED_STATUSES, vec![&dependencies.0, &dependencies.1]);
    first.query_if(settles && expected.dependencies, &sql::LOCK_NAMED_DEPENDENTS, dependents.clone());
    // After everything that locks tasks: what is read of a locked task is then current.
    first.query_if(settles && expected.dependencies, &sql::LIST_NAMED_DEPENDENTS, dependents.clone());
    first.query_if(true, &sql::LOAD_CLOCK, vec![]);
    first.query_if(!whole.0.is_empty(), &sql::LOAD_TASKS, vec![&whole.0, &whole.1]);
    first.query_if(!identified.0.is_empty(), &sql::LOAD_IDENTITIES, vec![&identified.0, &identified.1]);
    first.query_if(!sized.0.is_empty(), &sql::LOAD_RESULT_SIZES, vec![&sized.0, &sized.1]);
    first.query_if(!printed.0.is_empty(), &sql::LOAD_OUTPUTS, vec![&printed.0, &printed.1]);
    first.query_if(!runs.is_empty(), &sql::FIND_RUNS, vec![&runs]);
    first.query_if(!observations.0.is_empty(), &sql::LOAD_OBSERVATIONS, vec![&observations.0, &observations.1]);
    let mut answers = first.answers().await?;
    let clock = answers.take(&sql::LOAD_CLOCK);
    let (has_dependencies, next_due) = waits(&clock, time)?;
    let (mut moved, some_held) = moved_tasks(&answers.take(&sql::MOVE_DUE))?;
    // What was not expected, for the first one that finds it; and what the upkeep of another server moves at this moment.
    let is_due = some_held || claims && next_due == Due::Now && !expected.delayed;
    let lists = settles && has_dependencies && !expected.dependencies;
    if is_due || lists {
        let mut again = Pipeline::new(session);
        again.query_if(is_due, &sql::AWAIT_RELEASE, vec![]);
        again.query_if(is_due, &sql::MOVE_DUE, move_due);
        again.query_if(is_due, &sql::PICK_TASKS, pick);
        again.query_if(lists, &sql::LOCK_NAMED_DEPENDENTS, dependents.clone());
        again.query_if(lists, &sql::LIST_NAMED_DEPENDENTS, dependents);
        answers.replace(again.answers().await?);
        moved += moved_tasks(&answers.take(&sql::MOVE_DUE))?.0;
    }
    (answers.has_dependencies, answers.picked_last) = (Some(has_dependencies), is_due);
    let expected = Expected { dependencies: has_dependencies, delayed: next_due != Due::Never };
    // What was moved is committed also if no command changes anything: otherwise a claim for another route would never get further.
    Ok(Begun { expected: Some(expected), wrote: moved > 0, moved, ..answers.into_begun(&clock, keys)? })
}

/// How many delayed tasks were moved, and whether some were left that others hold.
fn moved_tasks(moved: &[Row]) -> Read<(usize, bool)> {
    moved.first().map_or(Ok((0, false)), |row| Ok((rows::get(row, "tasks")?, rows::get(row, "some_held")?)))
}

/// When the next delayed task becomes claimable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Due {
    Never,
    Later,
    Now,
}

/// Whether any task waits for another one, and when the next delayed one is due.
fn waits(clock: &[Row], time: Option<i64>) -> Read<(bool, Due)> {
    let row = clock.first().ok_or(NO_CLOCK)?;
    let next_due: Option<Timestamp> = rows::get(row, "next_due")?;
    let read = rows::clock(row)?;
    let now = Clock::new(time.map_or(read, |micros| ClockRow { micros, offset_micros: 0, ..read })).now;
    let due = match next_due {
        None => Due::Never,
        Some(next_due) if next_due > now => Due::Later,
        Some(_) => Due::Now,
    };
    Ok((rows::get(row, "has_dependencies")?, due))
}

type Params<'a> = Vec<&'a (dyn ToSql + Sync)>;

/// Statements that are all sent before the first answer is awaited, in the order in which they are added.
struct Pipeline<'a> {
    session: &'a Session,
    sent: Vec<LocalBoxFuture<'a, Result<Option<Answer>, Error>>>,
}

/// The name of a statement, and its rows.
type Answer = (&'static str, Vec<Row>);

impl<'a> Pipeline<'a> {
    fn new(session: &'a Session) -> Self {
        Self { session, sent: Vec::new() }
    }

    /// A pipeline that begins a transaction first.
    fn beginning(session: &'a Session) -> Self {
        let begin = async { begin_to_write(session).await.map(|()| None) };
        Self { session, sent: vec![begin.boxed_local()] }
    }

    fn query_if(&mut self, needed: bool, sql: &'static Sql, params: Params<'a>) {
        let session = self.session;
        if needed {
            let query = async move { Ok(Some((sql.name, session.query(sql, &params).await?))) };
            self.sent.push(query.boxed_local());
        }
    }

    /// Sends the statements. Of several errors the first one is returned: the later ones fail because of it.
    async fn answers(self) -> Result<PrefetchedRows, Error> {
        let answers = join_all(self.sent).await.into_iter().collect::<Result<Vec<_>, Error>>()?;
        let rows = answers.into_iter().flatten().collect();
        Ok(PrefetchedRows { rows, ..PrefetchedRows::default() })
    }
}

fn pairs<'a, I>(keys: &'a BTreeSet<(QueueName, I)>, text: impl Fn(&'a I) -> &'a str) -> (Vec<&'a str>, Vec<&'a str>) {
    keys.iter().map(|(queue, id)| (queue.as_str(), text(id))).unzip()
}

/// The rows that were loaded, by the statements that load them.
#[derive(Default)]
struct PrefetchedRows {
    rows: HashMap<&'static str, Vec<Row>>,
    /// Nothing if that was not looked up after all tasks were locked.
    has_dependencies: Option<bool>,
    /// Whether tasks may have been picked, and locked, after it was looked who waits for whom.
    picked_last: bool,
}

impl PrefetchedRows {
    /// The rows of one statement.
    fn only(sql: &'static Sql, rows: Vec<Row>) -> Self {
        Self { rows: HashMap::from([(sql.name, rows)]), ..Self::default() }
    }

    /// Takes the rows of a statement; none if it was not needed.
    fn take(&mut self, sql: &'static Sql) -> Vec<Row> {
        self.rows.remove(sql.name).unwrap_or_default()
    }

    /// Uses the rows of statements that ran again.
    fn replace(&mut self, later: Self) {
        self.rows.extend(later.rows);
    }

    fn into_begun(self, clock: &[Row], keys: &BatchKeys) -> StoreResult<Begun> {
        let clock = clock.first().ok_or(NO_CLOCK)?;
        Ok(Begun {
            clock: rows::clock(clock)?,
            expected: None,
            numbers: rows::get(clock, "first_number")?,
            rows: self.into_transaction_rows(keys)?,
            moved: 0,
            wrote: false,
            is_idle: false,
        })
    }

    fn into_transaction_rows(mut self, keys: &BatchKeys) -> StoreResult<TransactionRows> {
        let mut loaded = TransactionRows::default();
        for row in &self.take(&sql::LOCK_QUEUES) {
            let (key, name) = rows::named_queue(row)?;
            loaded.queues.insert(name, Found::Here(key));
            loaded.settings.insert(key, rows::settings(row)?);
        }
        loaded.add_held_rows(&self.take(&sql::LOCK_TASKS))?;
        // Before rows that were only read: of a task that is locked they may be older.
        self.take_claims(keys, &mut loaded)?;
        self.take_dependencies(keys, &mut loaded)?;
        let ids = |pairs: &BTreeSet<(QueueName, TaskId)>, queues: &TransactionRows| -> Vec<(QueueKey, TaskId)> {
            let key = |(queue, id): &(QueueName, TaskId)| Some((queues.held_queue(queue)?, *id));
            pairs.iter().filter_map(key).collect()
        };
        let to_hold: BTreeSet<(QueueKey, TaskId)> = ids(&keys.held, &loaded).into_iter().collect();
        let (whole, identified) = (self.take(&sql::LOAD_TASKS), self.take(&sql::LOAD_IDENTITIES));
        let whole = whole.iter().map(|row| (row, true));
        for (row, is_whole) in whole.chain(identified.iter().map(|row| (row, false))) {
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
        for row in &self.take(&sql::LOAD_OBSERVATIONS) {
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

    fn take_dependencies(&mut self, keys: &BatchKeys, loaded: &mut TransactionRows) -> StoreResult<()> {
        for row in &self.take(&sql::LOCK_NAMED_STATUSES) {
            let (task, found) = rows::named_status(row)?;
            loaded.dependencies.statuses.insert(task, found);
        }
        loaded.add_held_rows(&self.take(&sql::LOCK_NAMED_DEPENDENTS))?;
        let noted = self.take(&sql::LIST_NAMED_DEPENDENTS);
        for row in &noted {
            loaded.add_listed(&rows::dependency(row)?);
        }
        // A task that was picked late may have got dependents since that was looked up.
        loaded.dependencies.unused = self.has_dependencies == Some(false) && !self.picked_last;
        if self.has_dependencies.is_some() {
            let key = |(queue, id): &(QueueName, TaskId)| Some((loaded.held_queue(queue)?, *id));
            let settling: Vec<(QueueKey, TaskId)> = keys.settling.iter().filter_map(key).collect();
            if noted.len() as i64 <= DEPENDENTS {
                loaded.dependencies.complete = settling.into_iter().collect();
            } else {
                loaded.dependencies.expected = settling.into_iter().map(|task| (task, false)).collect();
            }
        }
        if self.picked_last {
            let picked = loaded.picks.values().flatten().filter_map(|key| loaded.tasks.get(key));
            let picked = picked.map(|entry| (entry.queue, entry.head.id));
            let looked_at: Vec<_> = picked.filter(|task| loaded.dependencies.complete.contains(task)).collect();
            for (queue, id) in looked_at {
                loaded.dependencies.task_was_locked(queue, id);
            }
        }
        Ok(())
    }

    /// Of held tasks only: what was read of others may have changed since.
    fn take_sizes_and_output(&mut self, loaded: &mut TransactionRows) -> StoreResult<()> {
        for row in &self.take(&sql::LOAD_RESULT_SIZES) {
            if let Some(entry) = loaded.tasks.get_mut(&rows::output_key(row)?).filter(|entry| entry.held) {
                entry.result_bytes = Some(rows::result_bytes(row)?);
            }
        }
        for row in &self.take(&sql::LOAD_OUTPUTS) {
            let key = rows::output_key(row)?;
            if loaded.tasks.get(&key).is_some_and(|entry| entry.held) {
                loaded.outputs.insert(key, OutputEntry::loaded(rows::stored_output(row)?));
            }
        }
        Ok(())
    }

    fn take_claims(&mut self, keys: &BatchKeys, loaded: &mut TransactionRows) -> StoreResult<()> {
        loaded.runs.extend(keys.runs.iter().map(|run_id| (*run_id, RunUse::New)));
        self.take(&sql::FIND_RUNS).iter().try_for_each(|row| loaded.add_run(row))?;
        let takes_turns = |queue: &QueueName| {
            let settings = loaded.held_queue(queue).and_then(|key| loaded.settings.get(&key)?.as_ref());
            settings.is_some_and(|settings| settings::takes_turns(settings))
        };
        let wanted_in_turn = keys.wanted.iter().filter(|((queue, _), _)| takes_turns(queue));
        loaded.wanted_in_turn = wanted_in_turn.map(|(route, wanted)| (route.clone(), *wanted)).collect();
        let routes: Vec<&Route> = keys.wanted.keys().map(|(_, route)| route).collect();
        add_picks(loaded, self.take(&sql::PICK_TASKS), &routes)
    }
}

/// Adds tasks that were picked for the claims of these routes. Each row is dropped when it was read.
pub(crate) fn add_picks(loaded: &mut TransactionRows, picked: Vec<Row>, routes: &[&Route]) -> StoreResult<()> {
    let mut picks = Vec::with_capacity(picked.len());
    for row in picked {
        let row = &row;
        let (key, queue, head) = (rows::key(row)?, rows::queue_key(row)?, rows::head(row)?);
        let route_number: usize = rows::get(row, rows::ROUTE_NUMBER)?;
        picks.push((route_number, Reverse(head.priority), head.lifecycle.pending_seq, queue, key));
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
