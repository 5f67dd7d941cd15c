//! How soon the allocator returns what is free to the system. After its second by default, a server under attack has three times in
//! memory what it uses (docs/memory.md): with little memory, it is a few milliseconds.

use std::convert::Infallible;
use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use taskqueue_server::memory_plan::MemoryPlan;

/// mimalloc reads it once, before `main`.
const VARIABLE: &str = "MIMALLOC_PURGE_DELAY";
/// What mimalloc had before its version 3. None at all costs more work and saves little more.
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
