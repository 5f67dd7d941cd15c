//! What a service manager hears of this process, by the protocol of systemd's `Type=notify`: datagrams to the socket that
//! `NOTIFY_SOCKET` names. Without that variable nothing is sent. The worker's commands do not inherit the variables, and the server
//! starts no processes.

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::Arc;
use std::time::Duration;

use taskqueue_store::{Store, StoreError};
use tokio::time::{MissedTickBehavior, interval, timeout};
use tracing::warn;

const SOCKET: &str = "NOTIFY_SOCKET";
const WATCHDOG_MICROS: &str = "WATCHDOG_USEC";
const WATCHDOG_PROCESS: &str = "WATCHDOG_PID";

/// The time that a manager may take to take a datagram. It does that at once unless its queue is full.
const SEND_TIMEOUT: Duration = Duration::from_secs(1);

/// Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct NotifySocket {
    address: Option<SocketAddr>,
    watchdog: Option<Duration>,
}

impl NotifySocket {
    pub(crate) fn from_environment() -> Self {
        let variable = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        let Some(socket) = variable(SOCKET) else { return Self::default() };
        let address = match address(&socket) {
            Ok(address) => Some(address),
            Err(error) => {
                warn!(%error, "{SOCKET} names no socket that can be used; the service manager hears nothing");
                None
            }
        };
        let watchdog = watchdog(variable(WATCHDOG_MICROS), variable(WATCHDOG_PROCESS), std::process::id());
        Self { watchdog: watchdog.filter(|_| address.is_some()), address }
    }

    /// Returns how long to wait between two signs of life: half of what the manager allows.
    pub(crate) fn watchdog_interval(&self) -> Option<Duration> {
        self.watchdog.map(|most| most / 2)
    }

    /// The service is up.
    pub(crate) fn ready(&self, status: &str) {
        self.send(&format!("READY=1\nSTATUS={}", status.replace('\n', " ")));
    }

    /// Tells what the service does, for people.
    pub(crate) fn status(&self, status: &str) {
        self.send(&format!("STATUS={status}"));
    }

    /// The service ends, and takes its time.
    pub(crate) fn stopping(&self, status: &str) {
        self.send(&format!("STOPPING=1\nSTATUS={status}"));
    }

    /// A manager that cannot be reached is no reason to fail.
    fn send(&self, state: &str) {
        let Some(address) = &self.address else { return };
        let sent = UnixDatagram::unbound().and_then(|socket| {
            socket.set_write_timeout(Some(SEND_TIMEOUT))?;
            socket.send_to_addr(state.as_bytes(), address)
        });
        if let Err(error) = sent {
            warn!(%error, "the service manager cannot be reached");
        }
    }
}

/// Tells the manager again and again that the service is alive. A storage in this process belongs to it: while that hangs, the manager
/// hears nothing, and starts the service again. A database elsewhere would not come back by that, so asking it is enough.
pub(crate) async fn feed_watchdog(notify: NotifySocket, store: Arc<dyn Store>, is_elsewhere: bool, pause: Duration) {
    let mut ticks = interval(pause);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let answer = timeout(pause, store.check()).await.ok();
        if answer.is_some_and(|answer| is_sign_of_life(&answer)) || is_elsewhere {
            notify.send("WATCHDOG=1");
        }
    }
}

/// True if the store answers, which is a sign of life. Lost files and failed syncs need a person: ending the process would lose what
/// only it still holds.
fn is_sign_of_life<T>(answer: &Result<T, StoreError>) -> bool {
    !matches!(answer, Err(StoreError::Busy))
}

/// `/path` of a socket, or `@name` of one that is in no file system.
fn address(socket: &str) -> io::Result<SocketAddr> {
    match socket.strip_prefix('@') {
        Some(name) => SocketAddr::from_abstract_name(name),
        None if socket.starts_with('/') => SocketAddr::from_pathname(socket),
        None => Err(io::Error::new(io::ErrorKind::InvalidInput, "it begins with neither / nor @")),
    }
}

/// The longest time without a sign of life, if one is asked for and of this process.
fn watchdog(micros: Option<String>, process: Option<String>, me: u32) -> Option<Duration> {
    let micros: u64 = micros?.parse().ok().filter(|micros| *micros > 0)?;
    let is_ours = process.is_none_or(|process| process.parse() == Ok(me));
    is_ours.then(|| Duration::from_micros(micros))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_is_a_path_or_an_abstract_name() {
        assert_eq!(address("/run/x").unwrap().as_pathname(), Some(std::path::Path::new("/run/x")));
        assert!(address("@x").unwrap().as_pathname().is_none());
        for text in ["run/x", "vsock:1:2", &format!("/{}", "x".repeat(200)), &format!("@{}", "x".repeat(200))] {
            assert!(address(text).is_err(), "{text}");
        }
    }

    #[test]
    fn only_a_storage_that_hangs_is_silent() {
        assert!(is_sign_of_life(&Ok(())));
        assert!(is_sign_of_life::<()>(&Err(StoreError::Unavailable)), "it answers that its files are lost");
        assert!(!is_sign_of_life::<()>(&Err(StoreError::Busy)));
    }

    #[test]
    fn only_the_watchdog_of_this_process_is_fed() {
        let text = |text: &str| Some(text.to_owned());
        let cases = [
            (None, None, None),
            (text("30000000"), None, Some(30)),
            (text("30000000"), text("7"), Some(30)),
            (text("30000000"), text("8"), None),
            (text("30000000"), text("x"), None),
            (text("0"), None, None),
            (text("-1"), None, None),
            (text("soon"), text("7"), None),
        ];
        for (micros, process, seconds) in cases {
            assert_eq!(watchdog(micros.clone(), process, 7), seconds.map(Duration::from_secs), "{micros:?}");
        }
    }
}
