//! What the kernel tells about processes in /proc, and how everything below this one is killed.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::Read;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, wait};

/// One process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) pid: i32,
    pub(crate) parent: i32,
    pub(crate) group: i32,
    /// The kernel's letter: R, S, D, T, Z, ...
    pub(crate) state: char,
    pub(crate) is_alive: bool,
}

/// The process that asks.
pub(crate) fn own_pid() -> i32 {
    Pid::as_raw(Some(rustix::process::getpid()))
}

/// The numbers that name the entries of a folder of /proc.
fn numbers(folder: &str) -> Vec<i32> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// Reads a file whose size is not known before, which saves asking for it.
fn read(path: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(1024);
    File::open(path).ok()?.take(u64::MAX).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// Every process that can be seen. One look costs some 10 µs per process of the machine.
pub(crate) fn all() -> Vec<Entry> {
    numbers("/proc").into_iter().filter_map(entry).collect()
}

fn entry(pid: i32) -> Option<Entry> {
    // The name of a command is any bytes, so this need not be UTF-8.
    parse(pid, &String::from_utf8_lossy(&read(&format!("/proc/{pid}/stat"))?))
}

fn parse(pid: i32, stat: &str) -> Option<Entry> {
    // The name of the command stands in parentheses and may hold both blanks and parentheses.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_ascii_whitespace().collect();
    let number = |index: usize| fields.get(index).and_then(|field| field.parse::<i32>().ok());
    let state = fields.first()?.chars().next()?;
    // A process whose first thread has ended looks like a zombie while its other threads go on.
    let is_alive = !matches!(state, 'Z' | 'X' | 'x') || number(17)? > 1;
    Some(Entry { pid, parent: number(1)?, group: number(2)?, state, is_alive })
}

/// The children of this process, zombies included: those that it has started, and those that came to it when their parents
/// ended.
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
        // The file is missing where the kernel was built without it; or a thread has just ended.
        None => {
            let own = own_pid();
            all().into_iter().filter(|entry| entry.parent == own).map(|entry| entry.pid).collect()
        }
    }
}

/// Everything below this process, each with its ancestor that is a direct child of this process.
pub(crate) fn descendants(entries: &[Entry]) -> Vec<(Entry, i32)> {
    let own = own_pid();
    let parents: HashMap<i32, i32> = entries.iter().map(|entry| (entry.pid, entry.parent)).collect();
    let top = |entry: &Entry| {
        let (mut pid, mut parent) = (entry.pid, entry.parent);
        // The look at /proc is no snapshot: with reused numbers there could be a circle in it.
        for _ in 0..entries.len() {
            if parent == own {
                return Some(pid);
            }
            (pid, parent) = (parent, *parents.get(&parent)?);
        }
        None
    };
    entries.iter().filter_map(|entry| Some((*entry, top(entry)?))).collect()
}

/// What a variable was in the environment that a process was started with.
#[cfg(test)]
pub(crate) fn started_with(pid: i32, variable: &str) -> Option<Vec<u8>> {
    let environment = read(&format!("/proc/{pid}/environ"))?;
    let mut variables = environment.split(|byte| *byte == 0);
    variables.find_map(|pair| Some(pair.strip_prefix(variable.as_bytes())?.strip_prefix(b"=")?.to_vec()))
}

/// Sends a signal. That the process is gone already, or is not ours to signal, is no error here: the next look tells.
pub(crate) fn signal(pid: i32, signal: Signal) {
    let _ = Pid::from_raw(pid).map(|pid| kill_process(pid, signal));
}

/// Sends a signal to the children of this process. None of their numbers can have been given to another process, because
/// nobody else reaps them.
pub(crate) fn signal_children(signal: Signal) {
    for pid in children() {
        self::signal(pid, signal);
    }
}

/// Kills everything below this process, at most for `patience`, and reaps it. Blocks. Says whether nothing is left.
///
/// This process must be a child subreaper: what its children leave comes to it and is killed next. So however fast they start
/// others, what is left when there is no child is nothing.
pub(crate) fn kill_children(patience: Duration) -> bool {
    let deadline = Instant::now() + patience;
    loop {
        signal_children(Signal::KILL);
        let is_over = !reap();
        if is_over || Instant::now() > deadline {
            return is_over;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Reaps every child that has ended. Says whether there are others.
fn reap() -> bool {
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some(_)) | Err(Errno::INTR) => {}
            Ok(None) => return true,
            Err(_) => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_stat_is_read_whatever_the_command_is_called() {
        let line = |state: char, threads: i32| {
            format!("7 (a) b) ( c) {state} 3 5 5 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 {threads} 0 99 0 0")
        };
        let entry = |state, is_alive| Some(Entry { pid: 7, parent: 3, group: 5, state, is_alive });
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
