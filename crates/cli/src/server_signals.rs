//! What signals tell a server: SIGTERM and SIGINT that it stops, SIGHUP that it reads its files again. Each file is followed by a task
//! of its own, which hears of SIGHUP by its `Reloads`.

use std::fs::File;
use std::io;
use std::time::Duration;

use tokio::select;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tokio::time::sleep;
use tracing::info;

/// Where processes find the terminal that they were started from. Without one it cannot be opened.
const TERMINAL: &str = "/dev/tty";

/// The end of a terminal is told a moment before the terminal is taken away.
const TAKEN_AWAY: Duration = Duration::from_millis(100);

/// Signals that arrive before anybody asks are not lost.
pub(crate) struct ServerSignals {
    stop: watch::Receiver<bool>,
    reloads: Reloads,
}

impl ServerSignals {
    /// From now on no signal ends the process by itself.
    pub(crate) fn listen() -> io::Result<Self> {
        let (stop_sender, stop) = watch::channel(false);
        let (reload_sender, reloads) = watch::channel(());
        let mut signals = Signals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
            had_terminal: has_terminal(),
        };
        tokio::spawn(async move {
            while let Told::Reload = signals.next().await {
                reload_sender.send_replace(());
            }
            stop_sender.send_replace(true);
            // Whoever waits for another reload waits until the process ends.
            reload_sender.closed().await;
        });
        Ok(Self { stop, reloads: Reloads(reloads) })
    }

    /// Done when the server is to stop.
    pub(crate) fn stop(&self) -> impl Future<Output = ()> + use<> {
        let mut stop = self.stop.clone();
        async move { drop(stop.wait_for(|is_told| *is_told).await) }
    }

    /// For somebody who follows a file.
    pub(crate) fn reloads(&self) -> Reloads {
        self.reloads.clone()
    }
}

/// Hears of every SIGHUP since the process was started; of several at once if nobody asked meanwhile.
#[derive(Clone)]
pub(crate) struct Reloads(watch::Receiver<()>);

impl Reloads {
    pub(crate) async fn next(&mut self) {
        if self.0.changed().await.is_err() {
            std::future::pending().await
        }
    }
}

enum Told {
    Stop,
    Reload,
}

struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
    had_terminal: bool,
}

impl Signals {
    async fn next(&mut self) -> Told {
        let name = select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
            _ = self.hangup.recv() => "SIGHUP",
        };
        match name {
            // Somebody has closed the window in which the server was started, and would not find it again.
            "SIGHUP" if self.had_terminal && is_terminal_gone().await => {
                info!("received SIGHUP: the terminal is gone");
                Told::Stop
            }
            "SIGHUP" => {
                info!("received SIGHUP: the files of tokens and certificates are read again");
                Told::Reload
            }
            _ => {
                info!("received {name}");
                Told::Stop
            }
        }
    }
}

async fn is_terminal_gone() -> bool {
    sleep(TAKEN_AWAY).await;
    !has_terminal()
}

fn has_terminal() -> bool {
    File::open(TERMINAL).is_ok()
}
