//! The process of a server. What signals tell it: SIGTERM and SIGINT that it stops, SIGHUP that it reads its files again, or that its
//! terminal was closed; each file is followed by a task of its own (`follow`), which hears of SIGHUP by its `Reloads`. What the system gives it:
//! open files (a connection is one, and many shells start processes with a limit of 1,024), and how soon the allocator returns what is free.
//! After its second by default, a server under attack has three times in memory what it uses (docs/memory.md): with little memory, it is a few
//! milliseconds. And variables of the environment that look like settings of this program and are none: a misspelt setting would be ignored in
//! silence.
//!
//! What a service manager hears of this process, by the protocol of systemd's `Type=notify`: datagrams to the socket that
//! `NOTIFY_SOCKET` names. Without that variable nothing is sent. The worker's commands do not inherit the variables, and the server
//! starts no processes.

use std::convert::Infallible;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use taskqueue_server::memory_plan::MemoryPlan;
use taskqueue_store::{Store, StoreError};
use taskqueue_worker::command::RUN_VARIABLES;
use taskqueue_worker::keeper::{HAS_KEEPER_VARIABLE, is_ignored};
use taskqueue_worker::process::RUN_ID_VARIABLE;
use tokio::select;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};
use tracing::{info, warn};

use crate::args;
use crate::config::VARIABLES;
use crate::failure::similar_names;

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

const PREFIX: &str = "TASKQUEUE_";

/// The variables that workers pass to what they start, besides [`RUN_VARIABLES`] and the settings of clients.
const OF_WORKERS: [&str; 2] = [RUN_ID_VARIABLE, HAS_KEEPER_VARIABLE];

/// Names them in the log, one line for each.
pub(crate) fn warn_of_unknown_variables() {
    for (name, similar) in unknown_variables(std::env::vars_os().map(|(name, _)| name), &known_variables()) {
        match similar {
            Some(similar) => {
                warn!("the variable {name} is no setting of taskqueue and is ignored; do you mean {similar}?")
            }
            None => warn!("the variable {name} is no setting of taskqueue and is ignored"),
        }
    }
}

/// The variables of clients, and of the commands of workers.
fn besides_flags() -> impl Iterator<Item = &'static str> {
    VARIABLES.into_iter().chain(RUN_VARIABLES).chain(OF_WORKERS)
}

/// All that have a meaning.
fn known_variables() -> Vec<String> {
    let mut known: Vec<String> = besides_flags().map(str::to_owned).collect();
    add_variables(&args::command_line(), &mut known);
    known
}

/// The variables of all flags.
fn add_variables(command: &clap::Command, known: &mut Vec<String>) {
    let variables = command.get_arguments().filter_map(|argument| argument.get_env()?.to_str());
    known.extend(variables.map(str::to_owned));
    command.get_subcommands().for_each(|inner| add_variables(inner, known));
}

/// Those that nobody knows, each with the one that may be meant.
fn unknown_variables(names: impl Iterator<Item = OsString>, known: &[String]) -> Vec<(String, Option<String>)> {
    let texts = names.filter_map(|name| name.into_string().ok());
    let mut unknown: Vec<String> =
        texts.filter(|name| name.starts_with(PREFIX) && !known.iter().any(|other| other == name)).collect();
    unknown.sort();
    let known: Vec<&str> = known.iter().filter_map(|name| name.strip_prefix(PREFIX)).collect();
    let meant = |name: &str| similar_names(&name[PREFIX.len()..], &known).first().map(|word| format!("{PREFIX}{word}"));
    unknown.into_iter().map(|name| (name.clone(), meant(&name))).collect()
}

const SOCKET: &str = "NOTIFY_SOCKET";
const WATCHDOG_MICROS: &str = "WATCHDOG_USEC";
const WATCHDOG_PROCESS: &str = "WATCHDOG_PID";

/// The time that a manager may take to take a datagram. It does that at once unless its queue is full.
const SEND_TIMEOUT: Duration = Duration::from_secs(1);

/// Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct NotifySocket {
    address: Option<SocketAddr>,
    /// The longest time without a sign of life.
    pub(crate) watchdog: Option<Duration>,
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

    #[test]
    fn a_variable_that_no_flag_and_no_command_knows_is_found_with_the_one_that_may_be_meant() {
        let names = ["TASKQUEUE_LISTEN", "TASKQUEUE_TOKEN", "TASKQUEUE_LISTENS", "PATH", "TASKQUEUE_XYZ", "TASKQUEUE"];
        let found = unknown_variables(names.into_iter().map(Into::into), &known_variables());
        let expected = [("TASKQUEUE_LISTENS", Some("TASKQUEUE_LISTEN")), ("TASKQUEUE_XYZ", None)];
        assert_eq!(found, expected.map(|(name, meant)| (name.to_owned(), meant.map(str::to_owned))));
    }

    #[test]
    fn settings_of_clients_and_what_commands_are_given_are_known() {
        assert!(unknown_variables(besides_flags().map(Into::into), &known_variables()).is_empty());
        assert!(besides_flags().all(|name| name.starts_with(PREFIX)));
    }

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
