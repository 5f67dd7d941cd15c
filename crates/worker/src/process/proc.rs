//! Reads processes from /proc, and kills the descendants of this process.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, kill_process, wait};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ProcessEntry {
    pub(crate) pid: i32,
    pub(crate) parent: i32,
    pub(crate) group: i32,
    /// The kernel's letter: R, S, D, T, Z, ...
    pub(crate) state: char,
    pub(crate) is_alive: bool,
    /// Its own time on a processor, in clock ticks.
    pub(crate) ticks: u64,
    /// That of its children that have ended, and of theirs.
    pub(crate) ended_ticks: u64,
    pub(crate) resident_pages: u64,
}

pub(crate) fn own_pid() -> i32 {
    Pid::as_raw(Some(rustix::process::getpid()))
}

/// The numbers that name the entries of a folder of /proc.
fn numbers(folder: &str) -> Vec<i32> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// Reads a file without asking for its size, which /proc does not know.
fn read(path: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(1024);
    File::open(path).ok()?.take(u64::MAX).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// All visible processes. This costs about 10 µs per process of the machine.
pub(crate) fn all() -> Vec<ProcessEntry> {
    // The command name may not be UTF-8.
    let entry = |pid| parse(pid, &String::from_utf8_lossy(&read(&format!("/proc/{pid}/stat"))?));
    numbers("/proc").into_iter().filter_map(entry).collect()
}

fn parse(pid: i32, stat: &str) -> Option<ProcessEntry> {
    // The command name is in parentheses and may contain blanks and parentheses.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_ascii_whitespace().collect();
    let number = |index: usize| fields.get(index).and_then(|field| field.parse::<i32>().ok());
    let count = |index: usize| fields.get(index).and_then(|field| field.parse::<u64>().ok());
    let state = fields.first()?.chars().next()?;
    // A process whose first thread has ended has the state of a zombie while its other threads run.
    let is_alive = !matches!(state, 'Z' | 'X' | 'x') || number(17)? > 1;
    Some(ProcessEntry {
        pid,
        parent: number(1)?,
        group: number(2)?,
        state,
        is_alive,
        ticks: count(11)? + count(12)?,
        ended_ticks: count(13).unwrap_or(0) + count(14).unwrap_or(0),
        resident_pages: count(21)?,
    })
}

/// The children of this process, including zombies and adopted orphans.
pub(crate) fn children() -> Vec<i32> {
    // The kernel keeps a list per thread.
    let threads = numbers("/proc/self/task");
    let lists: Option<Vec<Vec<u8>>> =
        threads.iter().map(|thread| read(&format!("/proc/self/task/{thread}/children"))).collect();
    match lists {
        Some(lists) => {
            let list = String::from_utf8_lossy(&lists.join(&b' ')).into_owned();
            list.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).collect()
        }
        // The kernel was built without this file, or a thread has just ended.
        None => {
            let own = own_pid();
            all().into_iter().filter(|entry| entry.parent == own).map(|entry| entry.pid).collect()
        }
    }
}

/// All living descendants of this process.
pub(crate) fn descendants() -> Vec<ProcessEntry> {
    let (own, entries) = (own_pid(), all());
    let parents: HashMap<i32, i32> = entries.iter().map(|entry| (entry.pid, entry.parent)).collect();
    let is_descendant = |entry: &&ProcessEntry| {
        let ancestors = std::iter::successors(Some(&entry.parent), |pid| parents.get(*pid));
        // /proc is not a snapshot: with reused pids it could contain a cycle.
        ancestors.take(entries.len()).any(|pid| *pid == own)
    };
    entries.iter().filter(|entry| entry.is_alive).filter(is_descendant).copied().collect()
}

/// Sends a signal. Errors are ignored: the next call of `children` or `all` shows whether the process is alive.
pub(crate) fn signal(pid: i32, signal: Signal) {
    let _ = Pid::from_raw(pid).map(|pid| kill_process(pid, signal));
}

/// Sends a signal to the children of this process. Their pids cannot be reused meanwhile, because only this process reaps them.
pub(crate) fn signal_children(signal: Signal) {
    children().into_iter().for_each(|pid| self::signal(pid, signal));
}

/// Long enough for every process that can be killed. One that hangs inside the kernel cannot.
const KILL_TIMEOUT: Duration = Duration::from_secs(10);

/// Kills and reaps all descendants of this process. Blocks for at most [`KILL_TIMEOUT`]. Returns whether none is left.
///
/// This process must be a child subreaper: the orphans of killed children become its children and are killed next. So when it has no
/// child left it has no descendant, however fast they fork.
pub(crate) fn kill_children() -> bool {
    let deadline = Instant::now() + KILL_TIMEOUT;
    loop {
        signal_children(Signal::KILL);
        let is_over = !reap(|_, _| {});
        if is_over || Instant::now() > deadline {
            return is_over;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Reaps every child that has ended, and tells its status. Returns whether others are left.
pub(crate) fn reap(mut ended: impl FnMut(i32, WaitStatus)) -> bool {
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some((pid, status))) => ended(Pid::as_raw(Some(pid)), status),
            Err(Errno::INTR) => {}
            Ok(None) => return true,
            Err(_) => return false,
        }
    }
}

/// Takes the socket that this process was started with as its standard input, the one descriptor that can be passed without unsafe
/// code. It is moved to a descriptor that no child inherits.
pub(crate) fn take_stdin_socket() -> io::Result<UnixStream> {
    let socket = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    rustix::stdio::dup2_stdin(File::open("/dev/null")?)?;
    Ok(socket)
}

/// Returns whether a signal was ignored when this process was started, as `nohup` does.
#[must_use]
pub fn is_ignored(signal: i32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    ignored & (1 << (signal - 1)) != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_stat_is_read_whatever_the_command_is_called() {
        let line = |state: char, threads: i32| {
            format!(
                "7 (a) b) ( c) {state} 3 5 5 0 -1 4194560 1 0 0 0 10 5 30 2 20 0 {threads} 0 99 1000000 250 1844674407370955"
            )
        };
        let (ticks, ended_ticks, resident_pages) = (15, 32, 250);
        let entry = |state, is_alive| {
            Some(ProcessEntry { pid: 7, parent: 3, group: 5, state, is_alive, ticks, ended_ticks, resident_pages })
        };
        assert_eq!(parse(7, &line('S', 1)), entry('S', true));
        assert_eq!(parse(7, &line('Z', 1)), entry('Z', false));
        assert_eq!(parse(7, &line('Z', 2)), entry('Z', true));
        assert_eq!(parse(7, "7 (cut"), None);
    }

    #[test]
    fn this_process_sees_itself() {
        let entries = all();
        assert!(entries.iter().any(|entry| entry.pid == own_pid() && entry.is_alive));
    }
}
