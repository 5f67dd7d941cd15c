//! Log lines for the journal of systemd: a number before each line tells its level. Lines of text have no time, because the journal
//! has its own; those of JSON keep it, because programs read it there.

use std::fmt;
use std::io;
use std::os::fd::AsFd;

use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// Where systemd says which file is the journal: its device and its inode.
const VARIABLE: &str = "JOURNAL_STREAM";

/// The prefix of a warning.
pub(super) const WARNING: &str = "<4>";

/// Whether standard error goes to the journal. The variable alone says nothing: it is inherited by what redirects its output.
pub(super) fn is_stderr() -> bool {
    let Ok(stream) = std::env::var(VARIABLE) else { return false };
    rustix::fs::fstat(io::stderr().as_fd()).is_ok_and(|file| stream == format!("{}:{}", file.st_dev, file.st_ino))
}

/// Another format with the level before each line.
pub(super) struct WithLevel<F>(pub(super) F);

impl<S, N, F> FormatEvent<S, N> for WithLevel<F>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
    F: FormatEvent<S, N>,
{
    fn format_event(&self, context: &FmtContext<'_, S, N>, mut writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        writer.write_str(prefix(*event.metadata().level()))?;
        self.0.format_event(context, writer, event)
    }
}

/// The priorities of syslog.
fn prefix(level: Level) -> &'static str {
    match level {
        Level::ERROR => "<3>",
        Level::WARN => WARNING,
        Level::INFO => "<6>",
        _ => "<7>",
    }
}
