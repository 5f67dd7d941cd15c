//! Begins a transaction in one round trip: `BEGIN`, read the clock, take a block of numbers, lock the queues and tasks that
//! the batch names, and pick tasks for its claims.

mod batch_keys;
mod upkeep;

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::time::Instant;

use futures_util::future::{FutureExt, LocalBoxFuture, join, join_all, join4};
use taskqueue_core::ids::{QueueName, Route, RunId, TaskId, WorkerId};
use taskqueue_store::StoreError;
use taskqueue_store::transaction::{QueueKey, RunUse};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Error, Row};

pub(crate) use self::batch_keys::BatchKeys;
pub(crate) use self::upkeep::begin_upkeep;
use crate::claim_turns;
use crate::clock::{Clock, ClockRow};
use crate::output_rows::OutputEntry;
use crate::rows;
use crate::session::{Session, Sql};
use crate::statements as sql;
use crate::transaction_rows::{Found, TransactionRows};

const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED";

/// For commands that visit every task of a queue.
const LONG_TIMEOUT: &str = "SET LOCAL statement_timeout = '25s'";

const NO_CLOCK: StoreError = StoreError::Broken("the clock has no row");

/// For how long no other transaction may begin in a queue that a long command needs exclusively. Whoever waits for the lock announces
/// it again before it is over. What a killed server has announced ends by itself, so it must be short: nobody can use the queue until
/// then.
const HELD_MICROS: i64 = 1_000_000;
/// How long one of the tries waits for the lock, and how many there are: 4 seconds in all, as for every other lock.
const LOCK_TRY: &str = "SET LOCAL lock_timeout = '500ms'";
const LOCK_TRIES: usize = 8;
const LOCKED: &str = "SET LOCAL lock_timeout = '4s'";

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
pub(crate) async fn begin(
    session: &Session,
    keys: &BatchKeys,
    expected: Expected,
    time: Option<i64>,
) -> Result<Result<Begun, StoreError>, Error> {
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
    let move_due = |needed| query_if(session, needed, &sql::MOVE_DUE, vec![&route_queues, &time]);
    let pick =
        |needed| query_if(session, needed, &sql::PICK_TASKS, vec![&route_queues, &routes, &counts, &false, &time]);
    let named = |sql, needed| query_if(session, needed, sql, vec![&settling.0, &settling.1, &most]);

    // All are sent before the first answer is awaited, in this order.
    let queries = vec![
        async { begin_to_write(session).await.map(|()| Vec::new()) }.boxed_local(),
        query_if(session, !queues.is_empty(), &sql::LOCK_QUEUES, vec![&queues]),
        query_if(session, !held.0.is_empty(), &sql::LOCK_TASKS, vec![&held.0, &held.1]),
        move_due(claims && expected.delayed),
        pick(claims),
        query_if(
            session,
            !dependencies.0.is_empty(),
            &sql::LOCK_NAMED_STATUSES,
            vec![&dependencies.0, &dependencies.1],
        ),
        named(&sql::LOCK_NAMED_DEPENDENTS, settles && expected.dependencies),
        // After everything that locks tasks: what is read of a locked task is then current.
        named(&sql::LIST_NAMED_DEPENDENTS, settles && expected.dependencies),
        query_if(session, true, &sql::LOAD_CLOCK, vec![]),
        query_if(session, !whole.0.is_empty(), &sql::LOAD_TASKS, vec![&whole.0, &whole.1]),
        query_if(session, !identified.0.is_empty(), &sql::LOAD_IDENTITIES, vec![&identified.0, &identified.1]),
        query_if(session, !sized.0.is_empty(), &sql::LOAD_RESULT_SIZES, vec![&sized.0, &sized.1]),
        query_if(session, !printed.0.is_empty(), &sql::LOAD_OUTPUTS, vec![&printed.0, &printed.1]),
        query_if(session, !runs.is_empty(), &sql::FIND_RUNS, vec![&runs]),
        query_if(session, !observations.0.is_empty(), &sql::LOAD_OBSERVATIONS, vec![&observations.0, &observations.1]),
    ];
    let mut answers = join_all(queries).await.into_iter().collect::<Result<Vec<_>, Error>>()?.into_iter().skip(1);
    let mut next = || answers.next().unwrap_or_default();
    // In the order of the statements.
    let (queues, held, moved, picks, statuses) = (next(), next(), next(), next(), next());
    let (waiting, noted, clock) = (next(), next(), next());
    let (whole, identified, sized, printed, runs) = (next(), next(), next(), next(), next());
    let observations = next();
    let mut rows = PrefetchedRows {
        queues,
        held,
        picks,
        statuses,
        waiting,
        noted,
        has_dependencies: None,
        whole,
        identified,
        sized,
        printed,
        runs,
        observations,
    };
    let found = waits(&clock, time).and_then(|waits| Ok((waits, moved_tasks(&moved)?)));
    let ((has_dependencies, next_due), (mut moved, some_held)) = match found {
        Ok(found) => found,
        Err(error) => return Ok(Err(error)),
    };
    // What was not expected, for the first one that finds it; and what the upkeep of another server moves at this moment.
    let is_due = some_held || claims && next_due == Due::Now && !expected.delayed;
    let lists = settles && has_dependencies && !expected.dependencies;
    if is_due || lists {
        let again = vec![
            query_if(session, is_due, &sql::AWAIT_RELEASE, vec![]),
            move_due(is_due),
            pick(is_due),
            named(&sql::LOCK_NAMED_DEPENDENTS, lists),
            named(&sql::LIST_NAMED_DEPENDENTS, lists),
        ];
        let mut answers = join_all(again).await.into_iter().collect::<Result<Vec<_>, Error>>()?.into_iter();
        let mut next = || answers.next().unwrap_or_default();
        let (_, moved_now, picks, waiting, noted) = (next(), next(), next(), next(), next());
        if is_due {
            rows.picks = picks;
        }
        match moved_tasks(&moved_now) {
            Ok((more, _)) => moved += more,
            Err(error) => return Ok(Err(error)),
        }
        if lists {
            (rows.waiting, rows.noted) = (waiting, noted);
        }
    }
    rows.has_dependencies = Some(has_dependencies);
    let expected = Expected { dependencies: has_dependencies, delayed: next_due != Due::Never };
    // What was moved is committed also if no command changes anything: otherwise a claim for another route would never get further.
    let moved = usize::try_from(moved).unwrap_or(0);
    let begun = rows.into_begun(&clock, keys);
    Ok(begun.map(|begun| Begun { expected: Some(expected), wrote: moved > 0, moved, ..begun }))
}

/// How many delayed tasks were moved, and whether some were left that others hold.
fn moved_tasks(moved: &[Row]) -> Result<(u64, bool), StoreError> {
    moved.first().map_or(Ok((0, false)), |row| Ok(rows::moved_tasks(row)?))
}

/// When the next delayed task becomes claimable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Due {
    Never,
    Later,
    Now,
}

/// Whether any task waits for another one, and when the next delayed one is due.
fn waits(clock: &[Row], time: Option<i64>) -> Result<(bool, Due), StoreError> {
    let row = clock.first().ok_or(NO_CLOCK)?;
    let (has_dependencies, next_due) = rows::waiting(row)?;
    let read = rows::clock(row)?;
    let now = Clock::new(time.map_or(read, |micros| ClockRow { micros, offset_micros: 0, ..read })).now;
    let due = match next_due {
        None => Due::Never,
        Some(next_due) if next_due > now => Due::Later,
        Some(_) => Due::Now,
    };
    Ok((has_dependencies, due))
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
    let name = queue.as_str();
    let queues = lock_alone(session, name).await?;
    let (set, freed) = join(session.execute_text(LOCKED), session.execute(&sql::FREE_QUEUE, &[&name])).await;
    set.and(freed)?;
    let clock = session.query(&sql::LOAD_CLOCK, &[]).await?;
    let mut begun = PrefetchedRows { queues, ..PrefetchedRows::default() }.into_begun(&clock, &BatchKeys::default());
    if let Ok(begun) = &mut begun {
        begun.rows.queues.entry(queue.clone()).or_insert(Found::Missing);
        begun.rows.dependencies.is_alone = true;
        begun.wrote = true;
    }
    Ok(begun)
}

/// Begins a transaction for a long command and locks its queue, which is announced as long as this waits.
async fn lock_alone(session: &Session, name: &str) -> Result<Vec<Row>, Error> {
    let mut tried = 0;
    loop {
        tried += 1;
        announce(session, name).await?;
        begin_for_long(session).await?;
        let names = vec![name];
        let locking = async { session.query(&sql::LOCK_QUEUE_ALONE, &[&names]).await };
        let (set, locked) = join(session.execute_text(LOCK_TRY), locking).await;
        match set.and(locked) {
            Err(error) if error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE) && tried < LOCK_TRIES => {
                session.execute_text("ROLLBACK").await?;
            }
            done => return done,
        }
    }
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
    /// Of dependencies.
    statuses: Vec<Row>,
    /// Dependents.
    waiting: Vec<Row>,
    /// What is noted of them.
    noted: Vec<Row>,
    /// Nothing if that was not looked up after all tasks were locked.
    has_dependencies: Option<bool>,
    whole: Vec<Row>,
    identified: Vec<Row>,
    sized: Vec<Row>,
    printed: Vec<Row>,
    runs: Vec<Row>,
    observations: Vec<Row>,
}

impl PrefetchedRows {
    fn into_begun(self, clock: &[Row], keys: &BatchKeys) -> Result<Begun, StoreError> {
        let clock = clock.first().ok_or(NO_CLOCK)?;
        Ok(Begun {
            clock: rows::clock(clock)?,
            expected: None,
            numbers: rows::numbers(clock)?,
            rows: self.into_transaction_rows(keys)?,
            moved: 0,
            wrote: false,
            is_idle: false,
        })
    }

    fn into_transaction_rows(mut self, keys: &BatchKeys) -> Result<TransactionRows, StoreError> {
        let mut loaded = TransactionRows::default();
        for row in &self.queues {
            let (key, name) = rows::named_queue(row)?;
            loaded.queues.insert(name, Found::Here(key));
            loaded.settings.insert(key, rows::settings(row)?);
        }
        for row in &self.held {
            loaded.add_held(rows::key(row)?, rows::queue_key(row)?, rows::head(row)?);
        }
        // Before rows that were only read: of a task that is locked they may be older.
        self.take_claims(keys, &mut loaded)?;
        self.take_dependencies(keys, &mut loaded)?;
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

    fn take_dependencies(&self, keys: &BatchKeys, loaded: &mut TransactionRows) -> Result<(), StoreError> {
        for row in &self.statuses {
            let (task, found) = rows::named_status(row)?;
            loaded.dependencies.statuses.insert(task, found);
        }
        loaded.add_held_rows(&self.waiting)?;
        for row in &self.noted {
            loaded.dependencies.add(&rows::dependency(row)?);
        }
        loaded.dependencies.unused = self.has_dependencies == Some(false);
        if self.has_dependencies.is_some() {
            let key = |(queue, id): &(QueueName, TaskId)| Some((loaded.held_queue(queue)?, *id));
            let settling: Vec<(QueueKey, TaskId)> = keys.settling.iter().filter_map(key).collect();
            if self.noted.len() as i64 <= DEPENDENTS {
                loaded.dependencies.complete = settling.into_iter().collect();
            } else {
                loaded.dependencies.expected = settling.into_iter().map(|task| (task, false)).collect();
            }
        }
        Ok(())
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

    fn take_claims(&mut self, keys: &BatchKeys, loaded: &mut TransactionRows) -> Result<(), StoreError> {
        loaded.runs.extend(keys.runs.iter().map(|run_id| (*run_id, RunUse::New)));
        self.runs.iter().try_for_each(|row| loaded.add_run(row))?;
        let takes_turns = |queue: &QueueName| {
            let settings = loaded.held_queue(queue).and_then(|key| loaded.settings.get(&key)?.as_ref());
            settings.is_some_and(|settings| claim_turns::takes_turns(settings))
        };
        let wanted_in_turn = keys.wanted.iter().filter(|((queue, _), _)| takes_turns(queue));
        loaded.wanted_in_turn = wanted_in_turn.map(|(route, wanted)| (route.clone(), *wanted)).collect();
        let routes: Vec<&Route> = keys.wanted.keys().map(|(_, route)| route).collect();
        add_picks(loaded, std::mem::take(&mut self.picks), &routes)
    }
}

/// Adds tasks that were picked for the claims of these routes. Each row is dropped when it was read.
pub(crate) fn add_picks(loaded: &mut TransactionRows, picked: Vec<Row>, routes: &[&Route]) -> Result<(), StoreError> {
    let mut picks = Vec::with_capacity(picked.len());
    for row in picked {
        let row = &row;
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
