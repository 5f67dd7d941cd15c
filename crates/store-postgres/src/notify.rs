//! The connection that notifies other servers of claimable tasks and ended runs, and receives their notifications (`LISTEN`, `NOTIFY`).
//! It is separate from the writers because a notification locks the whole database while it commits; at most one is sent
//! every few milliseconds. Where notifications do not work (a pooler in transaction mode, an engine without them), waiting
//! claims are served by `wakeups::poll` only, which is slower.
//!
//! The text of a notification between servers: the id of the sender, then lines. `waits`: claims wait at the sender.
//! `watches`: heartbeats are held there. `look`: poll all routes and runs. `- queue`: the queue was deleted. `! run run`:
//! these runs were ended by others than their workers. `queue routes id id`: these tasks became claimable. Names hold no
//! blanks. Lines that cannot be parsed are ignored, so that a newer server can say more; nothing depends on a message.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join;
use taskqueue_core::{QueueName, Route, Routes, RunEnd, RunId, TaskId};
use taskqueue_store::claimable::Claimable;
use tokio::sync::mpsc::{self, Receiver};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Error};

use crate::failure::{Cause, cause, describe};
use crate::open::Connector;
use crate::random_u64;
use crate::wakeups::Wakeups;

/// Between two notifications of a server.
const SEND_INTERVAL: Duration = Duration::from_millis(5);
/// Begins the transaction of a notification.
const BEGIN: &str = "BEGIN; SET LOCAL synchronous_commit = off; SET LOCAL statement_timeout = '4s'";
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(5);
const RECONNECT_PAUSE: Duration = Duration::from_secs(1);
/// Pause before the next try where notifications are not supported.
const UNSUPPORTED_PAUSE: Duration = Duration::from_secs(300);
/// Received notifications that wait to be handled; more are dropped.
const RECEIVE_BUFFER: usize = 1_024;

/// Why the listener gave its connection up.
enum Disconnected {
    ConnectionLost,
    /// The database has no notifications, or they do not arrive.
    Unsupported(String),
}

impl From<Error> for Disconnected {
    fn from(error: Error) -> Self {
        match cause(&error) {
            Cause::Failed => Self::Unsupported(describe(&error)),
            _ => Self::ConnectionLost,
        }
    }
}

/// Sends and receives notifications until the store is dropped.
pub(crate) async fn run(wakeups: Arc<Wakeups>, connector: Arc<Connector>) -> Infallible {
    let (server_id, mut logged) = (format!("{:016x}", random_u64()), false);
    loop {
        let pause = match run_listener(&wakeups, &connector, &server_id).await {
            Disconnected::ConnectionLost => RECONNECT_PAUSE,
            Disconnected::Unsupported(why) => {
                if !std::mem::replace(&mut logged, true) {
                    tracing::info!(
                        why,
                        "servers cannot notify each other here; waiting claims and heartbeats poll every second"
                    );
                }
                UNSUPPORTED_PAUSE
            }
        };
        sleep(pause).await;
    }
}

async fn run_listener(wakeups: &Wakeups, connector: &Connector, server_id: &str) -> Disconnected {
    let (sender, received) = mpsc::channel(RECEIVE_BUFFER);
    match connector.client(Some(sender)).await {
        Ok(client) => {
            let channel = connector.schema().name().to_owned();
            let listener = Listener { client, channel, server_id: server_id.to_owned() };
            listener.run(wakeups, received).await.unwrap_or_else(|reason| reason)
        }
        // Writers and readers log the reason.
        Err(_) => Disconnected::ConnectionLost,
    }
}

struct Listener {
    client: Client,
    channel: String,
    server_id: String,
}

impl Listener {
    async fn run(&self, wakeups: &Wakeups, mut received: Receiver<String>) -> Result<Disconnected, Disconnected> {
        let listen = format!("LISTEN \"{}\"", self.channel.replace('"', "\"\""));
        with_timeout(self.client.batch_execute(&listen)).await?;
        self.probe(wakeups, &mut received).await?;
        let (mut next_send, mut due) = (Instant::now(), false);
        loop {
            tokio::select! {
                text = received.recv() => match text {
                    Some(text) => self.receive(wakeups, &text),
                    None => return Ok(Disconnected::ConnectionLost),
                },
                () = wakeups.outbox_filled.notified(), if !due => due = true,
                () = sleep_until(next_send), if due => {
                    due = false;
                    if let Some(message) = wakeups.take_outbox() {
                        self.send(&message).await?;
                        next_send = Instant::now() + SEND_INTERVAL;
                    }
                }
                () = wakeups.announce.notified() => self.send(&Message::announcement(wakeups.waiting())).await?,
            }
        }
    }

    /// Sends a message and waits for it to come back: a pooler may accept `LISTEN` and drop the notifications, or pass
    /// them to another client.
    async fn probe(&self, wakeups: &Wakeups, received: &mut Receiver<String>) -> Result<(), Disconnected> {
        self.send(&Message::default()).await?;
        let own_message = async {
            while let Some(text) = received.recv().await {
                if Message::parse(&text).0 == self.server_id {
                    return Ok(());
                }
                self.receive(wakeups, &text);
            }
            Err(Disconnected::ConnectionLost)
        };
        let unsupported = |_| Disconnected::Unsupported("a pooler does not pass notifications on".to_owned());
        timeout(STATEMENT_TIMEOUT, own_message).await.map_err(unsupported)?
    }

    fn receive(&self, wakeups: &Wakeups, text: &str) {
        let (sender, message) = Message::parse(text);
        if sender != self.server_id {
            wakeups.receive(&message);
        }
    }

    /// The commit is not durable, so that the lock is held briefly. The settings end with the transaction: behind a
    /// pooler, settings of a session would apply to other clients.
    async fn send(&self, message: &Message) -> Result<(), Disconnected> {
        let (channel, text) = (self.channel.as_str(), message.to_text(&self.server_id));
        let params: [(&(dyn ToSql + Sync), Type); 2] = [(&channel, Type::TEXT), (&text, Type::TEXT)];
        // All three are sent before the first result is awaited.
        with_timeout(async {
            let notify = self.client.query_typed("SELECT pg_notify($1, $2)", &params);
            let (begun, (notified, committed)) =
                join(self.client.batch_execute(BEGIN), join(notify, self.client.batch_execute("COMMIT"))).await;
            begun.and(notified.map(drop)).and(committed)
        })
        .await
    }
}

async fn with_timeout(statements: impl Future<Output = Result<(), Error>>) -> Result<(), Disconnected> {
    timeout(STATEMENT_TIMEOUT, statements).await.map_err(|_| Disconnected::ConnectionLost)?.map_err(Disconnected::from)
}

/// PostgreSQL takes less than 8,000 bytes.
const MAX_BYTES: usize = 7_900;

const WAITS: &str = "waits";
const WATCHES: &str = "watches";
const POLL_ALL: &str = "look";
const DELETED: &str = "-";
const ENDED: &str = "!";

/// What of both the sender has, or the receivers have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Waiting {
    pub(crate) claims: bool,
    pub(crate) heartbeats: bool,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) waiting: Waiting,
    pub(crate) poll_all: bool,
    pub(crate) ended_runs: Vec<RunId>,
    pub(crate) deleted_queues: Vec<QueueName>,
    pub(crate) tasks: BTreeMap<(QueueName, Routes), Vec<TaskId>>,
    /// Length of the lines, without the id of the sender.
    bytes: usize,
}

impl Message {
    /// Announces what waits at the sender.
    pub(crate) fn announcement(waiting: Waiting) -> Self {
        Self { waiting, ..Self::default() }
    }

    /// Adds what was committed, as far as something at the receivers waits for it. If it does not fit, they poll instead.
    pub(crate) fn add(&mut self, claimable: &Claimable, receivers: Waiting) {
        self.poll_all |= claimable.poll_all;
        if receivers.heartbeats {
            self.add_ended_runs(claimable);
        }
        if receivers.claims {
            self.add_tasks(claimable);
        }
        if self.bytes > MAX_BYTES {
            *self = Self { waiting: self.waiting, poll_all: true, ..Self::default() };
        }
    }

    /// A worker knows of what it reported itself; the poll is soon enough for whoever else holds a heartbeat of its run. So a
    /// claim and a completion need no notification.
    fn add_ended_runs(&mut self, claimable: &Claimable) {
        let by_others = |end| matches!(end, RunEnd::Cancel | RunEnd::HeartbeatExpired | RunEnd::Timeout);
        for run in claimable.ended_runs.iter().filter(|run| by_others(run.end)) {
            self.bytes += run.run_id.as_str().len() + 1 + if self.ended_runs.is_empty() { 2 } else { 0 };
            self.ended_runs.push(run.run_id);
        }
    }

    fn add_tasks(&mut self, claimable: &Claimable) {
        self.deleted_queues.extend(claimable.deleted_queues.iter().cloned());
        self.bytes += claimable.deleted_queues.iter().map(|queue| queue.as_str().len() + 3).sum::<usize>();
        for hint in &claimable.hints {
            let Some(task) = hint.task else { continue };
            let (queue, routes) = (hint.queue.as_str().len(), hint.routes.as_json().len());
            let tasks = self.tasks.entry((hint.queue.clone(), hint.routes.clone())).or_default();
            self.bytes += if tasks.is_empty() { queue + routes + 2 } else { 0 } + task.as_str().len() + 1;
            tasks.push(task);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    pub(crate) fn to_text(&self, sender: &str) -> String {
        let mut lines = vec![sender.to_owned()];
        lines.extend(self.waiting.claims.then(|| WAITS.to_owned()));
        lines.extend(self.waiting.heartbeats.then(|| WATCHES.to_owned()));
        lines.extend(self.poll_all.then(|| POLL_ALL.to_owned()));
        lines.extend(self.deleted_queues.iter().map(|queue| format!("{DELETED} {queue}")));
        if !self.ended_runs.is_empty() {
            let run_ids: Vec<&str> = self.ended_runs.iter().map(RunId::as_str).collect();
            lines.push(format!("{ENDED} {}", run_ids.join(" ")));
        }
        for ((queue, routes), tasks) in &self.tasks {
            let tasks: Vec<&str> = tasks.iter().map(TaskId::as_str).collect();
            lines.push(format!("{queue} {} {}", routes.as_json(), tasks.join(" ")));
        }
        lines.join("\n")
    }

    /// The sender and the message.
    pub(crate) fn parse(text: &str) -> (&str, Self) {
        let mut lines = text.lines();
        let sender = lines.next().unwrap_or_default();
        let mut message = Self::default();
        for line in lines {
            let words: Vec<&str> = line.split(' ').collect();
            match words.as_slice() {
                [WAITS] => message.waiting.claims = true,
                [WATCHES] => message.waiting.heartbeats = true,
                [POLL_ALL] => message.poll_all = true,
                [DELETED, queue] => message.deleted_queues.extend(QueueName::parse(queue)),
                [ENDED, runs @ ..] => message.ended_runs.extend(runs.iter().filter_map(|run| RunId::parse(run))),
                [queue, routes, tasks @ ..] => {
                    let (Some(queue), Some(routes)) = (QueueName::parse(queue), parse_routes(routes)) else { continue };
                    let tasks = tasks.iter().filter_map(|task| TaskId::parse(task));
                    message.tasks.entry((queue, routes)).or_default().extend(tasks);
                }
                _ => {}
            }
        }
        (sender, message)
    }
}

fn parse_routes(json: &str) -> Option<Routes> {
    let inner = json.strip_prefix("[\"")?.strip_suffix("\"]")?;
    let routes: Option<Vec<Route>> = inner.split("\",\"").map(Route::parse).collect();
    Routes::new(routes?)
}

#[cfg(test)]
mod tests {
    use taskqueue_core::task::FinishedRun;
    use taskqueue_store::conformance::commands::{queue, routes, run_id, task_id};
    use taskqueue_store::waiting::Hint;

    use super::*;

    const BOTH: Waiting = Waiting { claims: true, heartbeats: true };

    fn ended(n: usize, end: RunEnd) -> FinishedRun {
        FinishedRun { run_id: run_id(n), end }
    }

    fn claimable(tasks: usize) -> Claimable {
        let mut claimable = Claimable::new(true);
        for n in 0..tasks {
            let routes = routes(if n % 2 == 0 { &["a"] } else { &["a", "b.c-d_e"] });
            claimable.hint(Hint { queue: queue("q"), routes, task: Some(task_id(n)) });
        }
        claimable
    }

    #[test]
    fn what_is_sent_is_what_is_received() {
        let mut message = Message::announcement(BOTH);
        let mut committed = claimable(5);
        committed.queue_deleted(&queue("old"));
        [1, 2].into_iter().for_each(|n| committed.run_ended(ended(n, RunEnd::Cancel)));
        message.add(&committed, BOTH);
        let text = message.to_text("me");
        let (sender, received) = Message::parse(&text);
        assert_eq!((sender, Message { bytes: message.bytes, ..received }), ("me", message));
        assert_eq!(text.lines().count(), 7, "{text}");
    }

    #[test]
    fn only_what_somebody_waits_for_is_sent() {
        let mut committed = claimable(1);
        RunEnd::ALL.into_iter().enumerate().for_each(|(n, end)| committed.run_ended(ended(n, end)));
        let sent = |claims, heartbeats| {
            let mut message = Message::default();
            message.add(&committed, Waiting { claims, heartbeats });
            (message.tasks.len(), message.ended_runs)
        };
        let by_others = vec![run_id(3), run_id(4), run_id(5)];
        assert_eq!(sent(true, false), (1, vec![]));
        assert_eq!(sent(false, true), (0, by_others.clone()), "a worker needs no notice of its own reports");
        assert_eq!(sent(true, true), (1, by_others));
    }

    #[test]
    fn a_message_that_would_be_too_long_requests_a_poll_of_all_routes() {
        let mut message = Message::default();
        message.add(&claimable(400), BOTH);
        assert!(!message.poll_all && message.to_text("0123456789abcdef").len() < 8_000);
        message.add(&claimable(400), BOTH);
        assert_eq!(message.to_text("me"), "me\nlook");
        let (mut message, mut committed) = (Message::default(), Claimable::new(true));
        (0..520).for_each(|n| committed.run_ended(ended(n, RunEnd::Cancel)));
        message.add(&committed, BOTH);
        assert!(!message.poll_all && message.to_text("0123456789abcdef").len() < 8_000);
        message.add(&committed, BOTH);
        assert_eq!(message.to_text("me"), "me\nlook");
    }

    #[test]
    fn lines_that_cannot_be_parsed_are_ignored() {
        for text in [
            "",
            "\n",
            "x\nq",
            "x\nq [\"\"] t_000000000001",
            "x\n- -",
            "x\nq [a] t",
            "\u{1F600}\n\u{1F600} x y",
            "x\nwaits now",
            "x\n! r_1 t_000000000001",
        ] {
            assert!(Message::parse(text).1.is_empty(), "{text:?}");
        }
    }
}
