//! The connection over which servers on one database tell each other what became claimable (`LISTEN` and `NOTIFY`): apart
//! from the writers, because a notification takes a lock of the whole database when it commits, and never more than one in a
//! few milliseconds. Where it does not work (a pooler in transaction mode, an engine without it) nothing is missing but
//! the speed: `poll.rs` does without.

pub(crate) mod message;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join;
use tokio::sync::mpsc::{self, Receiver};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Error};

use self::message::Notice;
use crate::failure::{Cause, cause, describe};
use crate::open::{ConnectError, Connector};
use crate::random_u64;
use crate::wakeups::Wakeups;

/// Between two notifications of a server.
const PACE: Duration = Duration::from_millis(5);
/// Begins the transaction of a notification.
const BEGIN: &str = "BEGIN; SET LOCAL synchronous_commit = off; SET LOCAL statement_timeout = '4s'";
/// How long a statement here may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// Pause before another connection is made.
const RECONNECT_PAUSE: Duration = Duration::from_secs(1);
/// The same where notifications do not come through.
const LONG_PAUSE: Duration = Duration::from_secs(300);
/// Notifications that wait to be read; more are lost.
const HEARD: usize = 1_024;

/// Why a connection was left.
enum Left {
    /// It was lost.
    Lost,
    /// The database does not know notifications, or they do not come through.
    Deaf(String),
}

impl From<Error> for Left {
    fn from(error: Error) -> Self {
        match cause(&error) {
            Cause::Failed => Self::Deaf(describe(&error)),
            _ => Self::Lost,
        }
    }
}

/// Listens and tells for ever.
pub(crate) async fn run(wakeups: Arc<Wakeups>, connector: Arc<Connector>) -> Infallible {
    let (me, mut told) = (format!("{:016x}", random_u64()), false);
    loop {
        let pause = match converse(&wakeups, &connector, &me).await {
            Left::Lost => RECONNECT_PAUSE,
            Left::Deaf(why) => {
                if !std::mem::replace(&mut told, true) {
                    tracing::info!(why, "servers cannot notify each other here; waiting claims look every second");
                }
                LONG_PAUSE
            }
        };
        sleep(pause).await;
    }
}

async fn converse(wakeups: &Wakeups, connector: &Connector, me: &str) -> Left {
    let (sender, heard) = mpsc::channel(HEARD);
    match connector.listening_client(sender).await {
        Ok(client) => {
            let line = Line { client, channel: connector.schema().name().to_owned(), me: me.to_owned() };
            line.converse(wakeups, heard).await.unwrap_or_else(|left| left)
        }
        // Whoever writes or reads says why.
        Err(ConnectError::Driver(_) | ConnectError::Timeout(_)) => Left::Lost,
    }
}

/// A connection that listens.
struct Line {
    client: Client,
    channel: String,
    me: String,
}

impl Line {
    async fn converse(&self, wakeups: &Wakeups, mut heard: Receiver<String>) -> Result<Left, Left> {
        let listen = format!("LISTEN \"{}\"", self.channel.replace('"', "\"\""));
        self.within_patience(self.client.batch_execute(&listen)).await?;
        self.hear_myself(wakeups, &mut heard).await?;
        let (mut free_at, mut due) = (Instant::now(), false);
        loop {
            tokio::select! {
                text = heard.recv() => match text {
                    Some(text) => self.hear(wakeups, &text),
                    None => return Ok(Left::Lost),
                },
                () = wakeups.outgoing.notified(), if !due => due = true,
                () = sleep_until(free_at), if due => {
                    due = false;
                    if let Some(notice) = wakeups.take_outgoing() {
                        self.tell(&notice).await?;
                        free_at = Instant::now() + PACE;
                    }
                }
                () = wakeups.announce.notified() => self.tell(&Notice::of_waiting()).await?,
            }
        }
    }

    /// A pooler may take `LISTEN` and give the notifications to somebody else, or to nobody.
    async fn hear_myself(&self, wakeups: &Wakeups, heard: &mut Receiver<String>) -> Result<(), Left> {
        self.tell(&Notice::default()).await?;
        let mine = async {
            while let Some(text) = heard.recv().await {
                if Notice::of_text(&text).0 == self.me {
                    return Ok(());
                }
                self.hear(wakeups, &text);
            }
            Err(Left::Lost)
        };
        let deaf = |_| Left::Deaf("a pooler does not pass notifications on".to_owned());
        timeout(PATIENCE, mine).await.map_err(deaf)?
    }

    fn hear(&self, wakeups: &Wakeups, text: &str) {
        let (sender, notice) = Notice::of_text(text);
        if sender != self.me {
            wakeups.heard(&notice);
        }
    }

    /// Not durable, so that the lock is held for a moment only. What is set ends with the transaction: behind a pooler,
    /// settings of a session would go on to others.
    async fn tell(&self, notice: &Notice) -> Result<(), Left> {
        let (channel, text) = (self.channel.as_str(), notice.to_text(&self.me));
        let params: [(&(dyn ToSql + Sync), Type); 2] = [(&channel, Type::TEXT), (&text, Type::TEXT)];
        // All are sent before the first answer is awaited.
        let told = async {
            let notified = self.client.query_typed("SELECT pg_notify($1, $2)", &params);
            let (begun, (told, ended)) =
                join(self.client.batch_execute(BEGIN), join(notified, self.client.batch_execute("COMMIT"))).await;
            begun.and(told.map(drop)).and(ended)
        };
        self.within_patience(told).await
    }

    async fn within_patience(&self, said: impl Future<Output = Result<(), Error>>) -> Result<(), Left> {
        timeout(PATIENCE, said).await.map_err(|_| Left::Lost)?.map_err(Left::from)
    }
}
