//! The settings of queues, in the rows of the queues (docs/decisions/0064). A batch loads them with the queues that it holds; a change
//! of them has its queue alone.
//!
//! Queues in which claims take turns (docs/decisions/0064): those that limit how many tasks may be running, or of which route. Claims
//! of all servers hold one row of such a queue until their transaction ends; whoever has it counts what is running, and picks as many
//! tasks as there is room for. Ends of runs take no turn: one that is not committed yet counts as running.
//!
//! Nobody waits for a turn: who does not get it tries again. So nothing can wait in a circle.

use std::collections::HashMap;
use std::sync::Arc;

use taskqueue_core::{Lifecycle, QueueName, QueueSettings, Route, RunningTasks, TaskHead};
use taskqueue_store::{Loaded, QueueKey, StoreError, Transaction};
use tokio_postgres::{Error, Row};

use crate::prefetch::add_picks;
use crate::readers::Read;
use crate::reads::no_queue;
use crate::session::{Params, Session};
use crate::transaction::PostgresTransaction;
use crate::transaction_rows::{Found, TransactionRows};
use crate::{ended, rows, statements as sql};

/// The settings of a queue. One statement.
pub(crate) async fn queue_settings(session: &Session, queue: &QueueName) -> Read<QueueSettings> {
    let row = session.first(&sql::GET_SETTINGS, &[&queue.as_str()]).await?.ok_or_else(|| no_queue(queue))?;
    Ok(rows::settings(&row)?.map(Arc::unwrap_or_clone).unwrap_or_default())
}

/// What is wrong with the settings of a queue, or with what is derived from them, for a check.
pub(crate) fn wrong_settings(row: &Row) -> Option<String> {
    let name = rows::get(row, "name").map_or_else(|_| "without a name".to_owned(), |name: QueueName| name.to_string());
    let Ok(settings) = rows::settings(row) else {
        return Some(format!("the settings of queue {name} cannot be read"));
    };
    let settings = settings.unwrap_or_default();
    let mut limited = settings.retention.limited().words();
    limited.sort_unstable();
    let is_right = row.try_get("takes_turns").is_ok_and(|takes: bool| takes == takes_turns(&settings))
        && row.try_get("has_turn").is_ok_and(|has: bool| has == settings.limits_claims())
        && row.try_get("limited_states").is_ok_and(|states: Vec<&str>| states == limited);
    (!is_right).then(|| format!("what is derived from the settings of queue {name} is not what they say"))
}

/// Saves the settings of a queue, which the transaction has alone, and what follows from them for its tasks.
pub(crate) async fn save(
    session: &Session,
    queue: QueueKey,
    before: &QueueSettings,
    after: &QueueSettings,
) -> Result<(), Error> {
    let text = (*after != QueueSettings::default()).then(|| after.to_json());
    session.execute(&sql::SAVE_SETTINGS, &[&queue.0, &text, &takes_turns(after)]).await?;
    match (before.limits_claims(), after.limits_claims()) {
        (false, true) => {
            session.execute(&sql::INSERT_TURN, &[&queue.0]).await?;
            session.execute(&sql::COUNT_FROM_NOW_ON, &[&queue.0]).await?;
        }
        (true, false) => {
            session.execute(&sql::DELETE_TURN, &[&queue.0]).await?;
            session.execute(&sql::COUNT_NO_MORE, &[&queue.0]).await?;
        }
        (true, true) | (false, false) => {}
    }
    ended::save_retention(session, queue, [before, after].map(|settings| &settings.retention)).await
}

/// Whether claims look at the settings of their queue before any task is picked for them.
pub(crate) fn takes_turns(settings: &QueueSettings) -> bool {
    settings.paused || settings.limits_claims()
}

/// What is running in a queue, with what this transaction has claimed and ended itself.
#[derive(Debug, Default)]
pub(crate) struct Turn {
    of_queue: i64,
    of_routes: HashMap<Route, i64>,
}

impl Turn {
    fn add(&mut self, route: Option<&Route>, tasks: i64) {
        self.of_queue += tasks;
        if let Some(route) = route {
            *self.of_routes.entry(route.clone()).or_default() += tasks;
        }
    }

    fn add_run(&mut self, lifecycle: &Lifecycle, tasks: i64) {
        if lifecycle.run.is_some() {
            self.add(lifecycle.last_route.as_ref(), tasks);
        }
    }

    fn running(&self, route: &Route) -> RunningTasks {
        let count = |tasks: i64| u64::try_from(tasks).unwrap_or(0);
        RunningTasks {
            of_queue: count(self.of_queue),
            of_route: count(self.of_routes.get(route).copied().unwrap_or(0)),
        }
    }
}

impl TransactionRows {
    /// A task of a queue changes. Called before it is noted.
    pub(crate) fn count_run(&mut self, queue: QueueKey, before: &TaskHead, after: &Lifecycle) {
        if let Some(Some(turn)) = self.turns.get_mut(&queue) {
            turn.add_run(&before.lifecycle, -1);
            turn.add_run(after, 1);
        }
    }
}

impl PostgresTransaction<'_> {
    /// Called before a task changes. If it has ended, or does so now, the settings say whether that is noted (`ended.rs`).
    pub(crate) fn know_settings(&mut self, queue: QueueKey, lifecycles: &[&Lifecycle]) -> Loaded<()> {
        if lifecycles.iter().any(|lifecycle| lifecycle.status.is_ended()) {
            self.load_settings(queue)?;
        }
        Ok(())
    }

    pub(crate) fn save_settings_of(&mut self, queue: QueueKey, settings: &QueueSettings) -> Loaded<()> {
        let before = self.load_settings(queue)?.unwrap_or_default();
        if self.rows.new_queues.values().any(|new| *new == queue) {
            // Its row has to be there.
            self.send()?;
        }
        self.wrote = true;
        self.wait("saving settings", save(self.session, queue, &before, settings))?;
        let kept = (*settings != QueueSettings::default()).then(|| Arc::new(settings.clone()));
        self.rows.settings.insert(queue, kept);
        Ok(())
    }

    /// What is running in a queue that limits claims. Takes the turn, and picks tasks for all claims of the queue.
    pub(crate) fn running_in_turn(&mut self, queue: QueueKey, route: &Route) -> Loaded<RunningTasks> {
        if !self.rows.turns.contains_key(&queue) {
            let turn = self.take_turn(queue)?;
            let has_turn = turn.is_some();
            self.rows.turns.insert(queue, turn);
            if has_turn {
                self.pick_in_turn(queue)?;
            }
        }
        let turn = self.rows.turns.get(&queue).and_then(Option::as_ref).ok_or(StoreError::Busy)?;
        Ok(turn.running(route))
    }

    fn take_turn(&mut self, queue: QueueKey) -> Loaded<Option<Turn>> {
        let of_queue: Params<'_> = &[&queue.0];
        // In this order: what the one before has claimed is committed when the turn is free.
        let (lock, count) = ((&sql::LOCK_TURN, of_queue), (&sql::COUNT_LIMITED, of_queue));
        let (turn, counted) = self.query_both("taking a turn to claim", lock, count)?;
        if turn.is_empty() {
            return Ok(None);
        }
        let mut turn = Turn::default();
        for row in &counted {
            turn.add(rows::get::<Option<Route>>(row, "route")?.as_ref(), rows::get(row, "tasks")?);
        }
        for entry in self.rows.tasks.values().filter(|entry| entry.queue == queue && entry.held) {
            entry.stored.iter().for_each(|stored| turn.add_run(&stored.lifecycle, -1));
            turn.add_run(&entry.head.lifecycle, 1);
        }
        Ok(Some(turn))
    }

    /// Picks tasks for the claims of a queue, as many as there is room for.
    fn pick_in_turn(&mut self, queue: QueueKey) -> Loaded<()> {
        let Some(settings) = self.load_settings(queue)? else { return Ok(()) };
        let Some(Some(turn)) = self.rows.turns.get(&queue) else { return Ok(()) };
        let (mut names, mut routes, mut counts) = (Vec::new(), Vec::new(), Vec::new());
        for ((name, route), wanted) in &self.rows.wanted_in_turn {
            if self.rows.queues.get(name) != Some(&Found::Here(queue)) {
                continue;
            }
            let room = settings.room(route, turn.running(route)).map(|room| i64::try_from(room).unwrap_or(i64::MAX));
            let count = room.unwrap_or(*wanted).min(*wanted);
            if count > 0 {
                names.push(name.to_string());
                routes.push(route.clone());
                counts.push(count);
            }
        }
        if counts.is_empty() {
            return Ok(());
        }
        let now = self.clock.now.as_micros();
        let texts = routes.iter().map(Route::as_str).collect::<Vec<_>>();
        let picked = self.query("picking tasks in turn", &sql::PICK_TASKS, &[&names, &texts, &counts, &true, &now])?;
        add_picks(&mut self.rows, picked, &routes.iter().collect::<Vec<_>>())
    }
}

#[cfg(test)]
mod tests {
    use taskqueue_store::conformance::commands::route;

    use super::*;

    #[test]
    fn a_turn_counts_by_queue_and_by_the_route_that_a_task_was_claimed_for() {
        let mut turn = Turn::default();
        turn.add(Some(&route("a")), 2);
        turn.add(Some(&route("b")), 1);
        turn.add(None, 1);
        assert_eq!(turn.running(&route("a")), RunningTasks { of_queue: 4, of_route: 2 });
        turn.add(Some(&route("a")), -2);
        assert_eq!(turn.running(&route("a")), RunningTasks { of_queue: 2, of_route: 0 });
        assert_eq!(turn.running(&route("c")), RunningTasks { of_queue: 2, of_route: 0 });
    }

    #[test]
    fn claims_take_turns_exactly_where_settings_can_stop_them() {
        let cases = [
            (QueueSettings::default(), false),
            (QueueSettings { paused: true, ..QueueSettings::default() }, true),
            (QueueSettings { max_running: Some(1), ..QueueSettings::default() }, true),
            (QueueSettings { route_limits: [(route("a"), 1)].into(), ..QueueSettings::default() }, true),
        ];
        for (settings, expected) in cases {
            assert_eq!(takes_turns(&settings), expected, "{settings:?}");
        }
    }
}
