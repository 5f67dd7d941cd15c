//! What the system gives a server: open files, and how soon the allocator returns what is free. A connection is an open file, and many
//! shells start processes with a limit of 1,024. After the second by which the allocator waits by default, a server under attack has
//! three times in memory what it uses (docs/memory.md): with little memory, it is a few milliseconds.

use std::convert::Infallible;
use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use taskqueue_server::memory_plan::MemoryPlan;

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
const VARIABLE: &str = "MIMALLOC_PURGE_DELAY";
/// The delay that mimalloc had before its version 3. None at all costs more work and saves little more.
const SHORT_MILLISECONDS: &str = "10";

/// With little memory, begins this program again with a short delay, unless the variable says which one is wanted. It stays the same
/// process. Where that fails, the server goes on with what it has.
pub(crate) fn shorten_with_little_memory() {
    if MemoryPlan::of_this_process().is_small && std::env::var_os(VARIABLE).is_none() {
        // It has no log yet, and runs well without.
        let Err(_) = begin_again();
    }
}

fn begin_again() -> io::Result<Infallible> {
    let mut arguments = std::env::args_os();
    let name = arguments.next().unwrap_or_else(|| OsString::from("taskqueue"));
    // Not /proc/self/exe: the process would be called `exe`.
    let program = std::env::current_exe()?;
    Err(Command::new(program).arg0(name).args(arguments).env(VARIABLE, SHORT_MILLISECONDS).exec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_raised_to_what_the_system_allows() {
        raise_file_limit();
        let limit = getrlimit(Resource::Nofile);
        assert_eq!(limit.current, limit.maximum);
    }
}
