//! How far a long command is, on standard error and only if that is a terminal.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// How often a bar moves by itself, so that it is seen to live.
const TICK: Duration = Duration::from_millis(200);

/// A bar, or a spinner where the end is not known. It disappears when it is dropped.
#[derive(Debug)]
pub(crate) struct Progress(ProgressBar);

impl Progress {
    /// A bar towards `total` tasks.
    pub(crate) fn of_tasks(verb: &'static str, total: u64) -> Self {
        Self::new(ProgressBar::new(total), "{prefix} {wide_bar} {human_pos}/{human_len} {elapsed} {msg}", verb)
    }

    /// A bar through a file of so many bytes.
    pub(crate) fn of_bytes(verb: &'static str, total: u64) -> Self {
        Self::new(ProgressBar::new(total), "{prefix} {wide_bar} {percent}% {eta} {msg}", verb)
    }

    /// A spinner.
    pub(crate) fn unbounded(verb: &'static str) -> Self {
        Self::new(ProgressBar::new_spinner(), "{prefix} {spinner} {elapsed} {msg}", verb)
    }

    fn new(bar: ProgressBar, template: &'static str, verb: &'static str) -> Self {
        // A template that cannot be read is a mistake of this file; the library's own look is good enough then.
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.set_prefix(verb);
        // Without a terminal nothing is drawn, and no thread is needed for it.
        if !bar.is_hidden() {
            bar.enable_steady_tick(TICK);
        }
        Self(bar)
    }

    /// So many steps are done in all.
    pub(crate) fn set(&self, position: u64) {
        self.0.set_position(position);
    }

    /// What else there is to say.
    pub(crate) fn say(&self, message: String) {
        self.0.set_message(message);
    }

    /// Whether anybody sees it.
    pub(crate) fn is_visible(&self) -> bool {
        !self.0.is_hidden()
    }

    /// Lets `print` write lines to standard error without the bar in between.
    pub(crate) fn suspended<T>(&self, print: impl FnOnce() -> T) -> T {
        self.0.suspend(print)
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
