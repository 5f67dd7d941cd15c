//! Where log lines go and how they look. What is logged is decided where it happens.

use std::io::{self, IsTerminal};

use tracing_subscriber::filter::LevelFilter;

use crate::args::{LogFormat, LogLevel};

/// Sends log lines to standard error from now on.
pub(crate) fn start(format: LogFormat, level: LogLevel) {
    let lines = tracing_subscriber::fmt().with_writer(io::stderr).with_max_level(filter(level));
    // An error means that somebody else already takes the lines; then there is nothing to do.
    drop(match format {
        LogFormat::Text => {
            let colours = io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
            lines.with_ansi(colours).with_target(false).try_init()
        }
        LogFormat::Json => lines.json().flatten_event(true).with_span_list(false).try_init(),
    });
}

fn filter(level: LogLevel) -> LevelFilter {
    match level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    }
}
