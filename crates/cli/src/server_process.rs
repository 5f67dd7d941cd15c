//! The process of a server. What signals tell it: SIGTERM and SIGINT that it stops, SIGHUP that it reads its files again, or that its
//! terminal was closed; each file is followed by a task of its own (`follow`), which hears of SIGHUP by its `Reloads`. And what the
//! system gives it: open files (a connection is one, and many shells start processes with a limit of 1,024), and how soon the
//! allocator returns what is free. After its second by default, a server under attack has three times in memory what it uses (docs/memory.md): with little memory,
//! it is a few milliseconds.

use std::convert::Infallible;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use taskqueue_server::memory_plan::MemoryPlan;
use taskqueue_worker::keeper::is_ignored;
use tokio::select;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tokio::time::{MissedTickBehavior, interval, sleep};
use tracing::info;

/// The path of the terminal that a process was started from. Without one it cannot be opened.
const TERMINAL: &str = "/dev/tty";

/// The end of a terminal is told a moment before the terminal is taken away.
const TAKEN_AWAY: Duration = Duration::from_millis(100);

/// Between two looks whether the terminal is there. It is told of its end within milliseconds, if at all.
const LOOK: Duration = Duration::from_secs(1);

/// Signals that arrive before anybody asks are not lost.
pub(crate) struct ServerSignals {
    /// The number of times that the server was told to stop.
    stops: watch::Receiver<u32>,
    /// For everybody who follows a file.
    pub(crate) reloads: Reloads,
}

impl ServerSignals {
    /// From now on no signal ends the process by itself.
    pub(crate) fn listen() -> io::Result<Self> {
        let (stop_sender, stops) = watch::channel(0_u32);
        let (reload_sender, reloads) = watch::channel(());
        // First: to listen for a signal ends that it is ignored.
        let terminal = Terminal::new(has_terminal() && !is_ignored(SignalKind::hangup().as_raw_value()));
        let mut signals = Signals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
            terminal,
        };
        tokio::spawn(async move {
            loop {
                match signals.next_is_stop().await {
                    true => stop_sender.send_modify(|stops| *stops = stops.saturating_add(1)),
                    false => reload_sender.send_replace(()),
                }
            }
        });
        Ok(Self { stops, reloads })
    }

    /// Done when the server was told so many times to stop: whoever tells it twice does not want to wait.
    pub(crate) fn told_to_stop(&self, times: u32) -> impl Future<Output = ()> + use<> {
        let mut stops = self.stops.clone();
        async move { drop(stops.wait_for(|stops| *stops >= times).await) }
    }
}

/// Changes at every SIGHUP since the process was started; once at several if nobody asked meanwhile.
pub(crate) type Reloads = watch::Receiver<()>;

/// Looks at a file until the process ends: at each SIGHUP, and between them so often as `every` says. `look` is told whether somebody asked, and runs on a
/// thread of its own, because a file system over the network may take its time.
pub(crate) async fn follow<S: Send + 'static, F: Send + 'static>(
    mut state: S,
    every: Option<Duration>,
    mut reloads: Reloads,
    look: impl Fn(&mut S, bool) -> F + Clone + Send + 'static,
    tell: impl Fn(F),
) {
    let mut ticks = every.map(interval);
    // A disk that hung for a minute needs no sixty looks afterwards.
    ticks.iter_mut().for_each(|ticks| ticks.set_missed_tick_behavior(MissedTickBehavior::Delay));
    loop {
        let is_asked = select! {
            Some(_) = async { Some(ticks.as_mut()?.tick().await) } => false,
            Ok(()) = reloads.changed() => true,
            else => return,
        };
        let look = look.clone();
        let looking = spawn_blocking(move || {
            let found = look(&mut state, is_asked);
            (state, found)
        });
        // An error means that the runtime is shutting down.
        let Ok((looked, found)) = looking.await else { return };
        state = looked;
        tell(found);
    }
}

struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
    terminal: Terminal,
}

impl Signals {
    /// Waits for a signal. Returns whether it tells the server to stop, or else to read its files again.
    async fn next_is_stop(&mut self) -> bool {
        let name = loop {
            select! {
                _ = self.terminate.recv() => break "SIGTERM",
                _ = self.interrupt.recv() => break "SIGINT",
                _ = self.hangup.recv() => break "SIGHUP",
                () = sleep(LOOK), if self.terminal.may_be_closed() => self.look_at_terminal(),
            }
        };
        match name {
            // Somebody has closed the window in which the server was started, and would not find it again.
            "SIGHUP" if self.terminal.may_be_closed() && is_terminal_gone().await => {
                info!("received SIGHUP: the terminal is gone");
                self.terminal = Terminal::new(false);
                true
            }
            "SIGHUP" => {
                info!("received SIGHUP: the files of tokens and certificates are read again");
                false
            }
            _ => {
                info!("received {name}");
                true
            }
        }
    }

    fn look_at_terminal(&mut self) {
        self.terminal.look(has_terminal());
        if !self.terminal.may_be_closed() {
            info!("the terminal is gone, and nobody told this server to stop: it goes on");
        }
    }
}

/// The terminal that the server was started in, as it was at the last two looks. SIGHUP tells of its end only if that is recent: a
/// server that has outlived its terminal (`disown`) was left running on purpose, and SIGHUP then comes from somebody.
struct Terminal {
    is_there: bool,
    was_there: bool,
}

impl Terminal {
    /// `is_there` also says whether its end is to stop the server: not with `nohup`, which ignores SIGHUP.
    fn new(is_there: bool) -> Self {
        Self { is_there, was_there: is_there }
    }

    fn look(&mut self, is_there: bool) {
        self.was_there = std::mem::replace(&mut self.is_there, is_there);
    }

    /// Two looks, because the first that finds it gone may come before its SIGHUP.
    fn may_be_closed(&self) -> bool {
        self.is_there || self.was_there
    }
}

async fn is_terminal_gone() -> bool {
    sleep(TAKEN_AWAY).await;
    !has_terminal()
}

fn has_terminal() -> bool {
    File::open(TERMINAL).is_ok()
}

/// Raises the soft limit to the hard limit. If that fails, the server starts with fewer possible connections.
pub(crate) fn raise_file_limit() {
    let limit = getrlimit(Resource::Nofile);
    if limit.current == limit.maximum {
        return;
    }
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }) {
        tracing::warn!(%error, "cannot raise the limit of open files");
    }
}

/// mimalloc reads it once, before `main`.
const PURGE_DELAY_VARIABLE: &str = "MIMALLOC_PURGE_DELAY";
/// The delay that mimalloc had before its version 3. None at all costs more work and saves little more.
const SHORT_MILLISECONDS: &str = "10";

/// With little memory, begins this program again with a short delay, unless the variable says which one is wanted. It stays the same
/// process. Where that fails, the server goes on with what it has.
pub(crate) fn begin_again_with_little_memory() {
    if MemoryPlan::of_this_process().is_small && std::env::var_os(PURGE_DELAY_VARIABLE).is_none() {
        // It has no log yet, and runs well without.
        let Err(_) = begin_again();
    }
}

fn begin_again() -> io::Result<Infallible> {
    let mut arguments = std::env::args_os();
    let name = arguments.next().unwrap_or_else(|| OsString::from("taskqueue"));
    // Not /proc/self/exe: the process would be called `exe`.
    let program = std::env::current_exe()?;
    Err(Command::new(program).arg0(name).args(arguments).env(PURGE_DELAY_VARIABLE, SHORT_MILLISECONDS).exec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_terminal_that_was_there_a_moment_ago_may_be_closed() {
        assert!(!Terminal::new(false).may_be_closed(), "no terminal, or nohup");
        let mut terminal = Terminal::new(true);
        let looks = [true, false, false].map(|is_there| {
            terminal.look(is_there);
            terminal.may_be_closed()
        });
        assert_eq!(looks, [true, true, false]);
    }

    #[test]
    fn the_limit_is_raised_to_what_the_system_allows() {
        raise_file_limit();
        let limit = getrlimit(Resource::Nofile);
        assert_eq!(limit.current, limit.maximum);
    }
}
