//! The binary `taskqueue-bench`. Everything is in the library of the same name.

use std::process::ExitCode;

fn main() -> ExitCode {
    taskqueue_bench::run()
}
