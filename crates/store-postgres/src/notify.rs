//! The connection that notifies other servers of claimable tasks and ended runs, and receives their notifications (`LISTEN`, `NOTIFY`).
//! It is separate from the writers because a notification locks the whole database while it commits; at most one is sent
//! every few milliseconds. Where notifications do not work (a pooler in transaction mode, an engine without them), waiting
//! claims are served by `poll.rs` only, which is slower.

pub(crate) mod message;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join;
use tokio::sync::mpsc::{self, Receiver};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Error};

use self::message::Message;
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
    match connector.listening_client(sender).await {
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
